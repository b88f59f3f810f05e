#include <algorithm>
#include <memory>

#include "worker/bench/bench_allreduce.h"
#include "worker/cuda/device/device_group.h"
#include "worker/cuda/device/one_shot_threshold.h"

namespace quire {

namespace {

constexpr auto kSumDeadline = std::chrono::seconds(20);

/// Returns an all-reduce in the memory of this rank's device. queue(data, count, stream) queues the sum of `count`
/// floats in place.
SumMethod DeviceMethod(const std::string& name, int64_t max_bytes, const std::shared_ptr<DeviceGroup>& group,
                       std::function<void(void*, int64_t, void*)> queue) {
  void* data = AllocateOnDevice(static_cast<size_t>(max_bytes));
  void* stream = MakeCudaStream();
  const auto read = [data](int64_t i) {
    float x = 0;
    CopyFromDevice(&x, static_cast<float*>(data) + i, sizeof(x));
    return x;
  };
  return {name,
          DescribeCudaDevice() + ", " + group->Describe() + ", launch and wait included",
          max_bytes,
          [data](int64_t bytes, float value) {
            const std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float), value);
            CopyToDevice(data, values.data(), static_cast<size_t>(bytes));
          },
          [=](int64_t bytes) {
            group->ExpectDoneBy(DeviceCollective::Clock::now() + kSumDeadline);
            queue(data, bytes / static_cast<int64_t>(sizeof(float)), stream);
            WaitForStream(stream);
            group->ExpectDoneBy(DeviceCollective::Clock::time_point::max());
            group->Check();
          },
          [read](int64_t bytes) { return std::pair(read(0), read(bytes / static_cast<int64_t>(sizeof(float)) - 1)); }};
}

}  // namespace

std::vector<SumMethod> DeviceSumMethods(MpiBootstrap& mpi, int64_t max_bytes) {
  // Every rank needs a device of its own. If some rank has none, no rank measures.
  const int devices = CudaDeviceCount();
  for (const std::string& missing : mpi.GatherAll(devices <= mpi.local_rank() ? "none" : "")) {
    if (!missing.empty()) return {};
  }
  UseCudaDevice(mpi.local_rank());
  const auto group = std::make_shared<DeviceGroup>(mpi, DeviceGroupOptions{});
  std::vector<SumMethod> methods = {
      DeviceMethod("NCCL", max_bytes, group, [group](void* data, int64_t count, void* stream) {
        group->library().AllReduceSum(data, count, NumberType::kF32, stream);
      })};
  if (group->has_one_shot()) {
    methods.push_back(DeviceMethod("one-shot", std::min(max_bytes, kOneShotCapacity), group,
                                   [group](void* data, int64_t count, void* stream) {
                                     group->OneShotSum(data, count, NumberType::kF32, stream);
                                   }));
  }
  return methods;
}

}  // namespace quire
