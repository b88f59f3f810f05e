#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "comm/collective/collective.h"

namespace quire::test {

/// Runs many small operations of four ranks one after another, and expects that no operation reads the data of another.
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
    std::vector<int32_t> for_all(4), from_all(4);
    for (Rank to = 0; to < 4; ++to) for_all[static_cast<size_t>(to)] = round * 100 + c.rank() * 10 + to;
    c.AllToAll(std::as_bytes(std::span(for_all)), std::vector<size_t>(16, sizeof(int32_t)),
               std::as_writable_bytes(std::span(from_all)));
    for (Rank from = 0; from < 4; ++from)
      ASSERT_EQ(from_all[static_cast<size_t>(from)], round * 100 + from * 10 + c.rank());
  }
}

/// Sends parts of many sizes, some of them empty. Each byte encodes its sender, its receiver and its position in the
/// part.
inline void ExpectAllToAllDelivers(Collective& c) {
  const auto ranks = static_cast<size_t>(c.size()), self = static_cast<size_t>(c.rank());
  const auto byte = [](size_t from, size_t to, size_t i) {
    return static_cast<std::byte>(from * 64 + to * 16 + i % 13);
  };
  for (const size_t unit : {size_t{0}, size_t{1}, size_t{1000}, size_t{200000}}) {
    std::vector<size_t> sizes;
    std::vector<std::byte> in, expected;
    for (size_t from = 0; from < ranks; ++from) {
      for (size_t to = 0; to < ranks; ++to) {
        sizes.push_back((2 * from + to) % 4 * unit);
        for (size_t i = 0; i < sizes.back(); ++i) {
          if (from == self) in.push_back(byte(from, to, i));
          if (to == self) expected.push_back(byte(from, to, i));
        }
      }
    }
    std::vector<std::byte> out(expected.size());
    c.AllToAll(in, sizes, out);
    ASSERT_EQ(out, expected) << "on rank " << c.rank() << " of " << ranks << ", unit " << unit;
  }
}

}  // namespace quire::test
