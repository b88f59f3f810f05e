#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "worker/cuda/cuda_engine.h"
#include "worker/cuda/device.h"
#include "worker/cuda/step_builder.h"
#include "worker/model/shard.h"

namespace quire {

/// What the KV cache stores.
inline NumberType CachedType(const CudaEngineOptions& options) {
  return options.fp8_cache ? NumberType::kFp8E4M3 : options.dtype;
}

/// Throws Error, with the remedy, when the CUDA kernels do not know heads, sizes, windows or blocks like the model's.
void CheckCudaModel(const ModelSpec& spec, const EngineSizes& sizes);

/// Everything about sizes that follows from model, options and device.
struct CudaEngineSizes {
  /// Throws Error when the device is too small for the attention that is asked for.
  CudaEngineSizes(const ModelSpec& spec, const EngineSizes& engine, const CudaEngineOptions& options, Rank rank,
                  const Device& device);

  std::vector<RankShard> shards;
  RankShard shard;
  int64_t logits_width, max_sequences, max_tokens, max_blocks;
  AttentionBackend attention;   // what decodes go through
  int64_t attention_workspace;  // floats
  int64_t state_bytes;          // of this rank's part of a sequence's state; 0: it has none
  int64_t state_blocks;         // that hold it
  StepBuilderSizes builder;
};

}  // namespace quire
