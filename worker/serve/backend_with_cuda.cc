// Implements backend.h for a build with CUDA and NCCL.
#include <algorithm>

#include "comm/base/error.h"
#include "comm/collective/cuda_ipc.h"
#include "comm/collective/nccl_pair.h"
#include "worker/cuda/cuda_engine.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/device/device_group.h"
#include "worker/cuda/device/pair_carrier.h"
#include "worker/serve/backend.h"
#include "worker/serve/cpu_backend.h"
#include "worker/serve/worker_log.h"

namespace quire {

namespace {

/// Returns the device ordinal for this rank: the assigned device, or else the rank's number on its host.
int DeviceOf(const AssignMessage& assign, const MpiBootstrap& mpi) {
  if (assign.devices.empty()) return mpi.local_rank();
  const auto rank = static_cast<size_t>(mpi.rank());
  if (rank >= assign.devices.size())
    Fail("the coordinator assigned {} devices to {} ranks", assign.devices.size(), mpi.world_size());
  return assign.devices[rank];
}

NumberType DTypeOf(ModelDtype dtype) {
  switch (dtype) {
    case ModelDtype::kFloat32:
      return NumberType::kF32;
    case ModelDtype::kFloat16:
      return NumberType::kF16;
    case ModelDtype::kBFloat16:
      return NumberType::kBF16;
    case ModelDtype::kAuto:
      break;
  }
  Fail("dtype auto: it is the coordinator that settles it");
}

/// True if the KV cache is stored in FP8; false if the cache has the type of the activations (kAuto). Throws
/// SettingsError for any other type.
bool HasFp8Cache(KvCacheDtype dtype) {
  if (dtype == KvCacheDtype::kAuto || dtype == KvCacheDtype::kFp8) return dtype == KvCacheDtype::kFp8;
  FailSettings("GPUs keep no KV cache of type {}", NameOf(dtype));
}

/// Returns the options that the assignment determines. The rank finds its device, and the ranks that share this device,
/// by itself.
CudaEngineOptions OptionsFrom(const AssignMessage& assign) {
  CudaEngineOptions options;
  options.dtype = DTypeOf(assign.compute.dtype);
  options.quantization = assign.compute.quantization;
  if (options.quantization != Quantization::kNone && options.dtype == NumberType::kF32)
    FailSettings("--quantization {} on a GPU needs --dtype bfloat16 or float16", NameOf(options.quantization));
  options.attention = assign.compute.attention_backend;
  options.fp8_cache = HasFp8Cache(assign.compute.kv_cache_dtype);
  return options;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign, MpiBootstrap& mpi,
              const std::function<void(int64_t, int64_t)>& progress)
      : files_(files), sizes_(sizes), options_(OptionsFrom(assign)), mpi_(mpi) {
    options_.device = DeviceOf(assign, mpi);
    options_.progress = progress;
    UseCudaDevice(options_.device);
    carrier_ = std::make_unique<PairCarrier>(options_.device, NcclPairing());
    options_.carrier = carrier_.get();
    options_.sharers = RanksOnThisDevice(mpi);
    if (mpi.world_size() == 1) return;
    const bool shared = options_.sharers > 1;
    if (shared) PrepareForSharedDevice(mpi.rank());
    collective_ = std::make_unique<DeviceGroup>(mpi, DeviceGroupOptions{{}, !shared, !shared});
    if (mpi.rank() == 0)
      WorkerLog(LogLevel::kInfo, mpi.rank(), fmt::format("collectives: {}", collective_->Describe()));
  }

  std::unique_ptr<RankEngine> MakeEngine() override {
    auto engine = MakeCudaEngine(files_, sizes_, options_, mpi_.rank(), collective_.get());
    mpi_.Barrier();  // on a shared device, free memory is known only after every rank has taken its part
    return engine;
  }

 private:
  const ModelFiles& files_;
  EngineSizes sizes_;
  CudaEngineOptions options_;
  MpiBootstrap& mpi_;
  std::unique_ptr<PairCarrier> carrier_;
  std::unique_ptr<DeviceGroup> collective_;
};

}  // namespace

Accelerators FindAccelerators() {
  const DeviceCount devices = CountDevices();
  return {devices.count, devices.problem};
}

std::vector<RankMemory> MemoryOfRanks(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign) {
  if (assign.compute.backend == BackendKind::kCpu) return MemoryOfCpuRanks(files, sizes);
  std::vector<RankMemory> ranks;
  for (size_t rank = 0; rank < sizes.shares.size(); ++rank)
    ranks.push_back(MemoryOfCudaRank(files, sizes, OptionsFrom(assign), static_cast<Rank>(rank)));
  return ranks;
}

std::unique_ptr<Backend> MakeBackend(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign,
                                     MpiBootstrap& mpi, const std::function<void(int64_t, int64_t)>& progress) {
  if (assign.compute.backend == BackendKind::kCpu) return MakeCpuBackend(files, sizes, mpi);
  return std::make_unique<CudaBackend>(files, sizes, assign, mpi, progress);
}

}  // namespace quire
