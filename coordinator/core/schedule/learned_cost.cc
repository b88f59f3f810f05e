#include "coordinator/core/schedule/learned_cost.h"

namespace quire {

int LearnedCost::Weight(int64_t context) const {
  constexpr double kMost = 1e6;
  const double plain = TokenSeconds(0);
  if (context < short_context_ || !(plain > 0)) return 1;
  return static_cast<int>(std::clamp(TokenSeconds(static_cast<double>(context)) / plain + 0.5, 1.0, kMost));
}

/// Updates exponentially weighted means, variance and covariance of context and seconds per token. Fits the slope by
/// least squares. kLittle keeps the slope near 0 while all contexts are of similar length, because noise would
/// otherwise determine the slope. A slope that was fitted to very different contexts stays until contexts differ as
/// much again.
void LearnedCost::LearnToken(double context, double seconds) {
  if (context < short_context_) short_seconds_ = short_seconds_ == 0 ? seconds : Mixed(short_seconds_, seconds);
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
  constexpr double kLittle = 128.0 * 128.0, kMuch = 16 * kLittle;  // tokens squared
  well_fitted_ = well_fitted_ || variance_ > kMuch;
  if (!well_fitted_ || variance_ > kMuch) slope_ = std::max(0.0, covariance_ / (variance_ + kLittle));
}

}  // namespace quire
