#pragma once

namespace quire {

inline constexpr double kLeastShare = 1e-6, kMostShare = 1e6;

/// What a rank's part of a model may be called beside the others' parts: numbers whose sums and ratios say what they
/// should. NaN is none.
constexpr bool IsShare(double share) { return share >= kLeastShare && share <= kMostShare; }

}  // namespace quire
