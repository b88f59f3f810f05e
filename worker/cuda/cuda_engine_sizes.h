#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "worker/cuda/cuda_engine.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/step/step_builder.h"
#include "worker/model/shard.h"

namespace quire {

/// Returns the type of the numbers in the KV cache.
inline NumberType CachedType(const CudaEngineOptions& options) {
  return options.fp8_cache ? NumberType::kFp8E4M3 : options.dtype;
}

/// Throws Error, with the remedy, if the CUDA kernels do not support the model's heads, sizes, windows or blocks.
void CheckCudaModel(const ModelSpec& spec, const EngineSizes& sizes);

/// The sizes that follow from model, options and device.
struct CudaEngineSizes {
  /// Throws Error if the requested attention backend does not support the model, or needs more shared memory than the
  /// device has.
  CudaEngineSizes(const ModelSpec& spec, const EngineSizes& engine, const CudaEngineOptions& options, Rank rank,
                  const Device& device);

  std::vector<RankShard> shards;
  RankShard shard;
  int64_t logits_width, max_sequences, max_tokens, max_blocks;
  AttentionBackend attention;   // the backend of decodes
  int64_t attention_workspace;  // number of floats
  int64_t state_bytes;          // bytes of this rank's part of a sequence's state; 0: no state
  int64_t state_blocks;         // blocks of this rank's part of a state
  StepBuilderSizes builder;
};

}  // namespace quire
