#pragma once

#include <vector>

#include "comm/collective/collective.h"
#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "worker/cuda/device/norming_collective.h"

namespace quire::test {

/// The collective of the engine's tests on a device. The ranks are threads of one process on one device, and sums are
/// Quire's one-shot kernels over the device's memory. Nothing waits on the host, so that graphs can contain the sums.
class EmulatedCollective final : public NormingCollective {
 public:
  explicit EmulatedCollective(Collective& host);

  Rank rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  void AllReduceSum(void* data, int64_t count, NumberType type, void* stream) override;
  void AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) override;
  void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) override;
  void ExpectDoneBy(Clock::time_point) override {}
  void Check() override {}
  void Abort() override;
  std::string Describe() const override { return "one-shot kernels of one process"; }

 private:
  static constexpr int64_t kCapacity = 4 << 20;  // size of the longest message in bytes

  void Meet(void* stream);

  kernels::OneShotGroup group_{};
  std::vector<std::byte*> staging_;  // kCapacity bytes for each rank
  float* meeting_ = nullptr;         // one number, summed only to wait for the other ranks
};

}  // namespace quire::test
