#pragma once

#include <algorithm>
#include <span>

#include "comm/base/types.h"

namespace quire {

/// total[i] += the sum, in rank order, of every rank's part[i], where part_of(rank) is the first number of its part:
/// one pass over all of them.
template <class PartOf>
void AddParts(int ranks, const PartOf& part_of, std::span<float> total) {
  constexpr size_t kTile = 256;  // stays in registers or the first cache
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
