#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/topology/preemption_mode.h"

namespace quire {

/// What computing tokens and moving blocks costs, learned from the steps that were run: a token costs more the longer
/// its context is. Plain arithmetic on measured times; the clock is the caller's.
class LearnedCost {
 public:
  /// Steps of fewer tokens say little about the speed of a step and are left out.
  static constexpr int kFewTokens = 32;

  /// Seconds to move one block between device and host, measured before the first step; 0: not known.
  void SetBlockSeconds(double seconds) { seconds_per_block_ = seconds; }

  /// A step computed `tokens`, whose contexts have `context` tokens in the mean, and moved `blocks`; `swap_seconds` of
  /// `seconds` went into the moving.
  void Observe(int tokens, double context, int blocks, double seconds, double swap_seconds) {
    if (tokens >= kFewTokens) LearnToken(context, std::max(seconds - swap_seconds, 0.0) / tokens);
    if (blocks > 0) {
      const double seen = std::max(swap_seconds, 0.0) / blocks;
      seconds_per_block_ = seconds_per_block_ == 0 ? seen : Mixed(seconds_per_block_, seen);
    }
  }

  /// To compute one token behind so many others; 0: not known.
  double TokenSeconds(double context) const {
    constexpr double kLeastPart = 0.1;  // of the mean: an estimate far from what was seen must stay above nothing
    return std::max(kLeastPart * mean_seconds_, mean_seconds_ + Slope() * (context - mean_context_));
  }
  /// To compute a sequence of so many tokens from its begin.
  double RecomputeSeconds(int64_t tokens) const {
    return TokenSeconds(static_cast<double>(tokens) / 2) * static_cast<double>(tokens);
  }
  /// Out and back again.
  double SwapSeconds(int blocks) const { return 2 * seconds_per_block_ * blocks; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(known_, mean_context_, mean_seconds_, variance_, covariance_, seconds_per_block_);
  }

 private:
  static constexpr double kNew = 0.2;  // the weight of what was seen last
  static double Mixed(double known, double seen) { return (1 - kNew) * known + kNew * seen; }

  /// Exponentially weighted means, variance and covariance of context and seconds per token.
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

  /// Seconds per token and token of context, by least squares; small where contexts differed little, because noise
  /// would decide then.
  double Slope() const {
    constexpr double kLittle = 128.0 * 128.0;  // tokens squared
    return std::max(0.0, covariance_ / (variance_ + kLittle));
  }

  bool known_ = false;
  double mean_context_ = 0, mean_seconds_ = 0, variance_ = 0, covariance_ = 0;
  double seconds_per_block_ = 0;
};

}  // namespace quire
