#pragma once

#include <functional>
#include <memory>

#include "comm/model/model_files.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/norming_collective.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/rank_engine.h"
#include "worker/engine/rank_memory.h"

namespace quire {

struct CudaEngineOptions {
  int device = 0;   // ordinal on this host
  int sharers = 1;  // ranks that have it
  NumberType dtype = NumberType::kBF16;
  Quantization quantization = Quantization::kNone;  // of plain weights as they are loaded (FormsOnDevice)
  AttentionBackend attention = AttentionBackend::kAuto;
  DeviceCarrier* carrier = nullptr;  // of the blocks of the pool to other groups; outlives the engine
  bool fp8_cache = false;            // keys and values as E4M3, else as dtype
  bool graphs = true;                // whole decode steps as CUDA graphs
  bool tune = true;                  // products by measurement, at the start; else fused where they can be
  bool fuse = true;                  // without measurement: norms and activation inside the products of small steps
  std::function<void(int64_t, int64_t)> progress = [](int64_t, int64_t) {};  // bytes loaded, bytes in all
};

/// The engine on one NVIDIA GPU. Loads the weights; `collective` outlives it and is null for a group of one. Throws
/// Error when the device or the model is of a kind that its kernels do not know.
std::unique_ptr<RankEngine> MakeCudaEngine(const ModelFiles& files, const EngineSizes& sizes,
                                           const CudaEngineOptions& options, Rank rank, NormingCollective* collective);

/// What the engine of that rank would take for weights and blocks; needs no device. Throws Error when its kernels do
/// not know the model.
RankMemory MemoryOfCudaRank(const ModelFiles& files, const EngineSizes& sizes, const CudaEngineOptions& options,
                            Rank rank);

}  // namespace quire
