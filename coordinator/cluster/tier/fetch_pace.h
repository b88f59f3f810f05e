#pragma once

namespace quire {

/// Measures how long one block, or one state, takes to come back from the store. A measurement is valid for
/// kMeasurementSeconds.
class FetchPace {
 public:
  static constexpr double kMeasurementSeconds = 120;  // an older measurement does not describe the disk's present speed
  static constexpr double kNewestPart = 0.5;          // weight of the newest measurement

  bool IsKnown(double now) const { return seconds_ > 0 && now - measured_at_ < kMeasurementSeconds; }
  /// Returns the smoothed time in seconds; 0 before the first measurement.
  double seconds() const { return seconds_; }
  void Note(double newest_seconds, double now) {
    const bool is_old = seconds_ == 0 || now - measured_at_ > kMeasurementSeconds;
    seconds_ = is_old ? newest_seconds : (1 - kNewestPart) * seconds_ + kNewestPart * newest_seconds;
    measured_at_ = now;
  }

 private:
  double seconds_ = 0, measured_at_ = 0;
};

}  // namespace quire
