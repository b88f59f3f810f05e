#pragma once

#include <memory>

#include "comm/collective/cuda_ipc.h"
#include "comm/collective/nccl_collective.h"
#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "worker/cuda/device/norming_collective.h"

namespace quire {

struct DeviceGroupOptions {
  NcclOptions nccl;
  bool one_shot = true;  // false: NCCL for all sums
  bool measure = true;   // false: use the published threshold
};

/// The collectives of a group's GPUs. Short all-reduces use the one-shot kernel if the options allow it, there are at
/// most kernels::kMaxOneShotRanks GPUs, and all are in one host and can access each other's memory. Everything else
/// uses NCCL.
class DeviceGroup final : public NormingCollective {
 public:
  /// Connects the GPUs of the group. With options.measure, also measures up to which size the one-shot all-reduce is
  /// faster, which takes about a second; the device should be idle meanwhile. All ranks must call it. It uses the
  /// calling thread's current device. Throws CollectiveAborted when NCCL fails or a rank is lost, and Error when a
  /// device fails.
  DeviceGroup(const MpiBootstrap& mpi, DeviceGroupOptions options);

  Rank rank() const override { return library_->rank(); }
  int size() const override { return library_->size(); }
  void AllReduceSum(void* data, int64_t count, NumberType type, void* stream) override;
  void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) override;
  void ExpectDoneBy(Clock::time_point deadline) override { library_->ExpectDoneBy(deadline); }
  void Check() override;
  void Abort() override { library_->Abort(); }
  std::string Describe() const override;

  void AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) override;

  // The functions below are for benchmarks, which compare the one-shot all-reduce with the library's. The one-shot
  // all-reduce takes at most kOneShotCapacity bytes.
  bool has_one_shot() const { return group_.size > 0; }
  void OneShotSum(void* data, int64_t count, NumberType type, void* stream);
  DeviceCollective& library() { return *library_; }

 private:
  bool GoesInOneShot(int64_t bytes) const { return threshold_ > 0 && bytes <= threshold_; }
  int64_t MeasureThreshold(const MpiBootstrap& mpi);

  std::vector<std::string> hosts_;
  kernels::OneShotGroup group_{};  // has size 0 without peer memory
  std::unique_ptr<DeviceCollective> library_;
  int64_t threshold_ = 0;  // bytes up to which sums are one-shot
  std::string why_;        // the origin of the threshold
};

}  // namespace quire
