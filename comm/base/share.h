#pragma once

namespace quire {

inline constexpr double kLeastShare = 1e-6, kMostShare = 1e6;

/// True when `share` is a valid weight of one rank's part of a model, relative to the other ranks' weights. It must lie
/// between kLeastShare and kMostShare, so that sums and ratios of shares are exact enough. NaN is not valid.
constexpr bool IsShare(double share) { return share >= kLeastShare && share <= kMostShare; }

}  // namespace quire
