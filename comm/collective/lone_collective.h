#pragma once

#include <algorithm>
#include <span>

#include "comm/collective/collective.h"

namespace quire {

/// The collective of a group that has only one rank, which communicates with no other process.
class LoneCollective final : public Collective {
 public:
  Rank rank() const override { return 0; }
  int size() const override { return 1; }
  void AllReduceAdd(std::span<const float> part, std::span<float> total) override {
    for (size_t i = 0; i < part.size(); ++i) total[i] += part[i];
  }
  void AllGather(std::span<const std::byte> in, std::span<const size_t>, std::span<std::byte> out) override {
    std::ranges::copy(in, out.begin());
  }
  void Abort() override {}
};

}  // namespace quire
