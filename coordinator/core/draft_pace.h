#pragma once

#include <algorithm>

namespace quire {

/// Decides how many drafts one sequence gets, from how many of its drafts were right. Plain data, kept in snapshots.
class DraftPace {
 public:
  /// Drafts that the sequence may have in the next step.
  int Length(int most) const { return rest_ > 0 ? 0 : std::min(length_, most); }
  /// True when the next step should wait for results, because the sequence may get drafts then.
  bool IsReady() const { return rest_ == 0; }

  /// The sequence had no guess.
  void FoundNothing() { rest_ = kRestWithoutGuess; }
  /// Verification kept `right` of `count` drafts.
  void Verified(int right, int count) {
    if (right == count) {
      length_ = std::min(2 * length_, kLongest);
      failures_ = 0;
    } else if (2 * right >= count) {
      failures_ = 0;
    } else {
      length_ = std::max(1, right + 1);
      if (right == 0) rest_ = kRestAfterFailure << std::min(failures_++, 5);
    }
  }
  /// The sequence gained tokens.
  void Gained(int tokens) { rest_ = std::max(0, rest_ - tokens); }

 private:
  static constexpr int kLongest = 64;
  // Tokens without drafts. Such tokens are planned ahead, which drafts prevent.
  static constexpr int kRestWithoutGuess = 2, kRestAfterFailure = 2;

  int length_ = 4;
  int rest_ = 0;      // tokens until the next drafts
  int failures_ = 0;  // guesses in a row without a right draft
};

}  // namespace quire
