#pragma once

#include <vector>

#include "comm/collective/collective.h"
#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "worker/cuda/norming_collective.h"

namespace quire::test {

/// What the engine's tests use on a device: ranks that are threads of one process on one device, whose sums are our own
/// one-shot kernels over its memory. Nothing waits on the host, so that graphs can hold them.
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
  static constexpr int64_t kCapacity = 4 << 20;  // bytes of the longest message

  void Meet(void* stream);

  kernels::OneShotGroup group_{};
  std::vector<std::byte*> staging_;  // by rank, kCapacity each
  float* meeting_ = nullptr;         // one number that is summed only to wait for the others
};

}  // namespace quire::test
