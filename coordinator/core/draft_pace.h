#pragma once

#include <algorithm>
#include <array>

namespace quire {

/// Learns what a row of a draft costs in a step, as a part of the same step without drafts. Pure arithmetic; the caller
/// reads the clock.
class DraftCost {
 public:
  /// A step decoded `sequences` sequences, computed `drafts` further rows for them and nothing else.
  void Observe(int sequences, int drafts, double seconds) {
    if (sequences < 1 || sequences > kMostSequences || !(seconds > 0)) return;
    double& plain = plain_seconds_[static_cast<size_t>(sequences) - 1];
    if (drafts == 0) {
      plain = plain == 0 ? seconds : Mixed(plain, seconds);
    } else if (plain > 0) {
      row_ = Mixed(row_, std::clamp((seconds / plain - 1) * sequences / drafts, 0.0, 1.0));
    }
  }
  /// Cost of one more row, relative to a step's part for one sequence.
  double row() const { return row_; }

 private:
  static constexpr int kMostSequences = 64;
  static constexpr double kNew = 0.1;  // weight of the newest measurement
  static double Mixed(double known, double seen) { return (1 - kNew) * known + kNew * seen; }

  std::array<double, kMostSequences> plain_seconds_{};  // by sequences, less 1; 0: not measured
  double row_ = 0.15;
};

/// Decides how many drafts one sequence gets, from how many of its drafts were right. Plain data, kept in snapshots.
class DraftPace {
 public:
  /// The number of drafts, at most `most`, with which a step is expected to gain the most tokens for its time.
  int Length(int most, double row_cost) const {
    if (rest_ > 0) return 0;
    int best = 0;
    double gained = 1, reach = 1, highest = 1;  // tokens; probability that the next draft is right; tokens per cost
    for (int length = 1; length <= most; ++length) {
      gained += reach *= Chance();
      const double per_cost = gained / (1 + row_cost * length);
      if (per_cost <= highest) break;
      best = length;
      highest = per_cost;
    }
    return std::max(best, std::min(most, 1));  // a single draft shows whether the text has changed
  }
  /// True when the next step should wait for results, because the sequence may get drafts then.
  bool IsReady() const { return rest_ == 0; }

  /// The sequence had no guess.
  void FoundNothing() { Rest(); }
  /// Verification kept `right` of `count` drafts.
  void Verified(int right, int count) {
    constexpr double kKept = 0.9;  // part of the older draws in the estimate
    right_ = kKept * right_ + right;
    tried_ = kKept * tried_ + right + (right < count ? 1 : 0);
    if (right == 0) return Rest();
    failures_ = 0;
  }
  /// The sequence gained tokens.
  void Gained(int tokens) { rest_ = std::max(0, rest_ - tokens); }

 private:
  /// The sequence does without drafts for 2 to 32 tokens. Steps are planned ahead meanwhile, which drafts prevent.
  void Rest() { rest_ = 2 << std::min(failures_++, 4); }
  double Chance() const { return right_ / tried_; }

  double right_ = 2, tried_ = 3;  // drafts that were right, and drafts whose turn came, with fading weights
  int rest_ = 0;                  // tokens until the next drafts
  int failures_ = 0;              // attempts in a row without a right draft
};

}  // namespace quire
