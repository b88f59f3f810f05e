#pragma once

#include <functional>
#include <memory>

#include "comm/model/model_files.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/norming_collective.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/rank_engine.h"
#include "worker/engine/rank_memory.h"

namespace quire {

struct CudaEngineOptions {
  int device = 0;   // device ordinal on this host
  int sharers = 1;  // number of ranks that share the device
  NumberType dtype = NumberType::kBF16;
  Quantization quantization = Quantization::kNone;  // type that plain weights become while loading (FormsOnDevice)
  AttentionBackend attention = AttentionBackend::kAuto;
  DeviceCarrier* carrier = nullptr;  // moves pool blocks to other groups; outlives the engine
  bool fp8_cache = false;            // true: keys and values in E4M3; false: in dtype
  bool graphs = true;                // run whole decode steps as CUDA graphs
  bool tune = true;                  // choose products by measurement at the start; false: `fuse` decides
  bool fuse = true;                  // without tuning: norms and activation inside small steps' products
  std::function<void(int64_t, int64_t)> progress = [](int64_t, int64_t) {};  // bytes loaded, total bytes
};

/// Makes the engine on one NVIDIA GPU and loads the weights. `collective` must outlive the engine; null: the group has
/// one rank. Throws Error if the kernels do not support the device or the model, or if the model has LoRA adapters.
std::unique_ptr<RankEngine> MakeCudaEngine(const ModelFiles& files, const EngineSizes& sizes,
                                           const CudaEngineOptions& options, Rank rank, NormingCollective* collective);

/// Returns the memory that the engine of `rank` would take for weights and blocks. Needs no device. Throws Error if the
/// kernels do not support the model.
RankMemory MemoryOfCudaRank(const ModelFiles& files, const EngineSizes& sizes, const CudaEngineOptions& options,
                            Rank rank);

}  // namespace quire
