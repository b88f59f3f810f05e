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
  /// tokens.
  static constexpr int kFewTokens = 32;

  /// Sets the seconds to move one block between device and host, as measured before the first step; 0: unknown.
  void SetBlockSeconds(double seconds) { seconds_per_block_ = seconds; }

  /// Learns from a step of `seconds` that computed `tokens` tokens (as OutstandingStep::cost counts them) with a mean
  /// context of `context` tokens, and moved `blocks` blocks. The moves took `swap_seconds` of `seconds`.
  void Observe(double tokens, double context, int blocks, double seconds, double swap_seconds) {
    const double computing = std::max(seconds - swap_seconds, 0.0);
    step_seconds_ = step_seconds_ == 0 ? computing : Mixed(step_seconds_, computing);
    if (tokens >= kFewTokens) LearnToken(context, computing / tokens);
    if (blocks > 0) {
      const double seen = std::max(swap_seconds, 0.0) / blocks;
      seconds_per_block_ = seconds_per_block_ == 0 ? seen : Mixed(seconds_per_block_, seen);
    }
  }

  /// Returns the seconds to compute one token after `context` earlier tokens; 0: unknown.
  double TokenSeconds(double context) const {
    constexpr double kLeastPart = 0.1;  // fraction of the mean that the result never falls below
    return std::max(kLeastPart * mean_seconds_, mean_seconds_ + Slope() * (context - mean_context_));
  }
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
    archive(known_, mean_context_, mean_seconds_, variance_, covariance_, seconds_per_block_, step_seconds_);
  }

 private:
  static constexpr double kNew = 0.2;  // weight of the newest measurement
  static double Mixed(double known, double seen) { return (1 - kNew) * known + kNew * seen; }

  /// Updates exponentially weighted means, variance and covariance of context and seconds per token.
  void LearnToken(double context, double seconds) {
    if (!known_) {
      known_ = true;
      mean_context_ = context;
      mean_seconds_ = seconds;
      return;
    }
    const double by_context = context - mean_context_, by_seconds = seconds - mean_seconds_;
    mean_context_ += kNew * by_context;
    mean_seconds_ += kNew * by_seconds;
    variance_ = (1 - kNew) * (variance_ + kNew * by_context * by_context);
    covariance_ = (1 - kNew) * (covariance_ + kNew * by_context * by_seconds);
  }

  /// Returns the seconds per token that one more token of context adds, by least squares. kLittle makes the slope
  /// nearly 0 while all contexts are of similar length; noise would otherwise determine it.
  double Slope() const {
    constexpr double kLittle = 128.0 * 128.0;  // tokens squared
    return std::max(0.0, covariance_ / (variance_ + kLittle));
  }

  bool known_ = false;
  double mean_context_ = 0, mean_seconds_ = 0, variance_ = 0, covariance_ = 0;
  double seconds_per_block_ = 0;
  double step_seconds_ = 0;  // mean seconds of a step without its block moves; 0: unknown
};

}  // namespace quire
