#pragma once

#include <algorithm>
#include <span>

#include "comm/base/types.h"

namespace quire {

/// Adds every rank's part to `total` in one pass: total[i] += the sum of part_of(rank)[i] over all ranks, in rank
/// order, in fp32. part_of(rank) points to the first number of that rank's part.
template <class PartOf>
void AddParts(int ranks, const PartOf& part_of, std::span<float> total) {
  constexpr size_t kTile = 256;  // numbers in a tile; small enough for registers or the L1 cache
  for (size_t begin = 0; begin < total.size(); begin += kTile) {
    const size_t count = std::min(kTile, total.size() - begin);
    float sums[kTile];
    std::copy_n(part_of(0) + begin, count, sums);
    for (Rank rank = 1; rank < ranks; ++rank) {
      const float* part = part_of(rank) + begin;
      for (size_t i = 0; i < count; ++i) sums[i] += part[i];
    }
    float* const to = total.data() + begin;
    for (size_t i = 0; i < count; ++i) to[i] += sums[i];
  }
}

}  // namespace quire
