#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "comm/collective/collective.h"
#include "worker/cuda/device/norming_collective.h"

namespace quire::test {

/// Collectives of devices on top of collectives of hosts, for ranks whose "device memory" is host memory. Like NCCL,
/// the collectives connect ranks at the first call of each size (rounded to a power of two), and fail if a graph
/// records that call.
class EmulatedCollective final : public NormingCollective {
 public:
  explicit EmulatedCollective(Collective& host) : host_(host) {}

  Rank rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  void AllReduceSum(void* data, int64_t count, NumberType type, void* stream) override;
  void AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) override;
  void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) override;
  void ExpectDoneBy(Clock::time_point) override {}
  void Check() override {}
  void Abort() override { host_.Abort(); }
  std::string Describe() const override { return "emulated"; }

 private:
  void Connect(bool gathers, int64_t bytes);

  Collective& host_;
  std::set<std::pair<bool, int>> connected_;  // past calls: (true for a gather, bit width of the number of bytes)
};

}  // namespace quire::test
