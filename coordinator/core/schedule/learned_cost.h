#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/topology/preemption_mode.h"

namespace quire {

/// Estimates the time of computing tokens and of moving blocks from the times of measured steps. A token takes longer
/// the longer its context is. The caller reads the clock.
class LearnedCost {
 public:
  /// The time of a token is not learned from steps with fewer tokens, because their time depends little on their
  /// tokens; except from steps whose long contexts make them four times the work of this many tokens.
  static constexpr int kFewTokens = 32;
  static constexpr int kShortContext = 512;  // usual value of the constructor's short_context

  /// `short_context`: a context of fewer tokens counts as none, because the noise of measured steps hides its cost.
  explicit LearnedCost(int short_context = kShortContext) : short_context_(short_context) {}

  /// Sets the seconds to move one block between device and host, as measured before the first step; 0: unknown.
  void SetBlockSeconds(double seconds) { seconds_per_block_ = seconds; }

  /// Learns from a step of `seconds` that computed `tokens` tokens (as OutstandingStep::cost counts them) with a mean
  /// context of `context` tokens, and moved `blocks` blocks. The moves took `swap_seconds` of `seconds`.
  void Observe(double tokens, double context, int blocks, double seconds, double swap_seconds) {
    const double computing = std::max(seconds - swap_seconds, 0.0);
    step_seconds_ = step_seconds_ == 0 ? computing : Mixed(step_seconds_, computing);
    const bool much_context = tokens * Weight(static_cast<int64_t>(context)) >= 4 * kFewTokens;
    if (tokens >= kFewTokens || much_context) LearnToken(context, computing / tokens);
    if (blocks > 0) {
      const double seen = std::max(swap_seconds, 0.0) / blocks;
      seconds_per_block_ = seconds_per_block_ == 0 ? seen : Mixed(seconds_per_block_, seen);
    }
  }

  /// Returns the seconds to compute one token after `context` earlier tokens; 0: unknown.
  double TokenSeconds(double context) const {
    constexpr double kLeastPart = 0.1;  // fraction of the mean that the result never falls below
    if (short_seconds_ > 0 && context < short_context_) return short_seconds_;
    const double least = short_seconds_ > 0 ? short_seconds_ : kLeastPart * mean_seconds_;
    return std::max(least, mean_seconds_ + slope_ * (context - mean_context_));
  }
  /// Returns how many tokens without context take the time of one token after `context` earlier tokens, rounded; at
  /// least 1.
  int Weight(int64_t context) const;
  /// Returns the seconds to compute a sequence of `tokens` tokens from its beginning.
  double RecomputeSeconds(int64_t tokens) const {
    return TokenSeconds(static_cast<double>(tokens) / 2) * static_cast<double>(tokens);
  }
  /// Returns the seconds to move blocks to the host and back again.
  double SwapSeconds(int blocks) const { return 2 * seconds_per_block_ * blocks; }
  /// True when moving blocks is quicker than computing their `tokens` tokens, which follow `context` tokens.
  bool MovingIsQuicker(int blocks, int context, int tokens) const {
    return seconds_per_block_ * blocks < TokenSeconds(context + tokens / 2.0) * tokens;
  }
  /// Returns how many blocks, from 1 to `most`, can be moved in kCopyPart of a step's time. That time is the longer of
  /// two: the mean time of a step, and the time of `tokens` tokens.
  int BlocksBeside(int tokens, int most) const {
    constexpr double kCopyPart = 0.05;
    const double seconds = kCopyPart * std::max(step_seconds_, TokenSeconds(0) * tokens);
    if (seconds_per_block_ * most <= seconds) return most;
    return std::max(1, static_cast<int>(seconds / seconds_per_block_));
  }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(known_, mean_context_, mean_seconds_, variance_, covariance_, well_fitted_, slope_, short_seconds_,
            seconds_per_block_, step_seconds_);
  }

 private:
  static constexpr double kNew = 0.2;  // weight of the newest measurement
  static double Mixed(double known, double seen) { return (1 - kNew) * known + kNew * seen; }

  void LearnToken(double context, double seconds);

  bool known_ = false;
  double mean_context_ = 0, mean_seconds_ = 0, variance_ = 0, covariance_ = 0;
  int short_context_;
  bool well_fitted_ = false;
  double slope_ = 0;          // seconds per token that one more token of context adds
  double short_seconds_ = 0;  // mean seconds of a token after fewer than short_context_ tokens; 0: unknown
  double seconds_per_block_ = 0;
  double step_seconds_ = 0;  // mean seconds of a step without its block moves; 0: unknown
};

}  // namespace quire
