#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace quire {

/// Learns two costs from measured times: that of verifying one draft token in a step, and that of one token from a
/// draft model. The unit is a step's time per sequence: the time of a step without drafts, divided by its number of
/// sequences. The caller reads the clock.
class DraftCost {
 public:
  /// Learns from a step of `seconds` that decoded `sequences` sequences and computed `drafts` drafted tokens, and no
  /// other tokens.
  void Observe(int sequences, int drafts, double seconds) {
    if (sequences < 1 || sequences > kMostSequences || !(seconds > 0)) return;
    double& plain = plain_seconds_[static_cast<size_t>(sequences) - 1];
    if (drafts == 0) {
      plain = plain == 0 ? seconds : Mixed(plain, seconds);
    } else if (plain > 0) {
      const double before = row(sequences), seen = std::clamp((seconds / plain - 1) * sequences / drafts, 0.0, 1.0);
      Row& row = rows_[static_cast<size_t>(sequences) - 1];
      // The first measurement counts as much as the cost that was assumed before.
      row.cost = before + std::max(kNew, 1.0 / (1 + ++row.num_seen)) * (seen - before);
    }
  }
  /// Learns that a draft model took `seconds` to make `tokens` draft tokens, after a step that decoded `sequences`
  /// sequences.
  void ObserveGuess(int sequences, int tokens, double seconds) {
    if (sequences < 1 || sequences > kMostSequences || tokens < 1 || !(seconds > 0)) return;
    const double plain = plain_seconds_[static_cast<size_t>(sequences) - 1];
    // Before its first draft for a sequence, the draft model computes the whole prompt, so the measured time is too
    // long. The upper bound limits this effect. The bound is above 1, so that the cost still shows when a draft model
    // is slower than the step itself.
    if (plain > 0) guess_ = Mixed(guess_, std::clamp(seconds / plain * sequences / tokens, 0.0, 4.0));
  }
  /// Returns the cost of one more drafted token in a step of `sequences` sequences, relative to the step's time per
  /// sequence. If that cost was never measured, returns the cost measured with the next smaller number of sequences, or
  /// else kAssumed.
  double row(int sequences) const {
    for (int count = std::min(sequences, kMostSequences); count > 0; --count) {
      const Row& row = rows_[static_cast<size_t>(count) - 1];
      if (row.num_seen > 0) return row.cost;
    }
    return kAssumed;
  }
  /// Returns the cost of one token from a draft model, relative to a step's time per sequence.
  double guess() const { return guess_; }

 private:
  static constexpr int kMostSequences = 64;
  static constexpr double kNew = 0.1;  // weight of the newest measurement
  static constexpr double kAssumed = 0.15;
  struct Row {
    double cost = kAssumed;
    int64_t num_seen = 0;
  };
  static double Mixed(double known, double seen) { return (1 - kNew) * known + kNew * seen; }

  std::array<double, kMostSequences> plain_seconds_{};  // entry i: time without drafts for i + 1 sequences; 0: unknown
  std::array<Row, kMostSequences> rows_{};              // entry i: cost of a drafted token with i + 1 sequences
  double guess_ = kAssumed;
};

}  // namespace quire
