#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "comm/collective/collective.h"

namespace quire::test {

/// Many small sums and gathers of four ranks, one after the other: nobody reads another operation's numbers.
inline void ExpectOperationsDoNotMixUp(Collective& c, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::vector<float> part(static_cast<size_t>(round % 9 + 1), static_cast<float>(round + c.rank()));
    std::vector<float> total(part.size(), 1);
    c.AllReduceAdd(part, total);
    for (const float x : total) ASSERT_EQ(x, static_cast<float>(4 * round + 7));
    const int32_t mine = round * 10 + c.rank();
    int32_t all[4];
    c.AllGather(std::as_bytes(std::span(&mine, 1)), std::vector<size_t>(4, sizeof(mine)),
                std::as_writable_bytes(std::span(all)));
    for (Rank r = 0; r < 4; ++r) ASSERT_EQ(all[r], round * 10 + r);
  }
}

}  // namespace quire::test
