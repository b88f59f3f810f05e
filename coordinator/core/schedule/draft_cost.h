#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace quire {

/// Learns the time of one drafted token in a step, and of one token that a draft model guesses, each as a fraction of
/// the step's time for one sequence without drafts. The caller reads the clock.
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
      row_ = Mixed(row_, std::clamp((seconds / plain - 1) * sequences / drafts, 0.0, 1.0));
    }
  }
  /// Learns that a draft model took `seconds` to guess `tokens` tokens, after a step that decoded `sequences`
  /// sequences.
  void ObserveGuess(int sequences, int tokens, double seconds) {
    if (sequences < 1 || sequences > kMostSequences || tokens < 1 || !(seconds > 0)) return;
    const double plain = plain_seconds_[static_cast<size_t>(sequences) - 1];
    // The first guess about a prompt reads all of it. The upper bound limits the weight of this measurement. The bound
    // lies above 1, so that a model that takes longer for a token than a step takes is found not to pay.
    if (plain > 0) guess_ = Mixed(guess_, std::clamp(seconds / plain * sequences / tokens, 0.0, 4.0));
  }
  /// Returns the time of one more drafted token, as a fraction of a step's time for one sequence.
  double row() const { return row_; }
  /// Returns the time of one token that a draft model guesses, as a fraction of a step's time for one sequence.
  double guess() const { return guess_; }

 private:
  static constexpr int kMostSequences = 64;
  static constexpr double kNew = 0.1;  // weight of the newest measurement
  static double Mixed(double known, double seen) { return (1 - kNew) * known + kNew * seen; }

  std::array<double, kMostSequences> plain_seconds_{};  // entry i: time without drafts for i + 1 sequences; 0: unknown
  double row_ = 0.15, guess_ = 0.15;
};

}  // namespace quire
