#pragma once

#include <functional>
#include <map>
#include <set>

#include "comm/model/model_files.h"
#include "worker/cuda/activations.h"
#include "worker/cuda/cuda_kv_cache.h"
#include "worker/cuda/cuda_weights.h"
#include "worker/cuda/norming_collective.h"
#include "worker/cuda/products.h"
#include "worker/cuda/step_arrays.h"

namespace quire {

struct CudaLlamaSizes {
  RankShard shard;
  kernels::DType dtype;
  int64_t max_tokens, max_draws;  // of a step
  int64_t logits_width;           // of a row of logits, floats: a multiple of 8, at least the vocabulary of any rank
  int64_t max_model_len;
  kernels::DecodeWorkSize decode_work;
  int32_t decode_stages;
  int threads;  // that load weights
};

/// What a step looks like to whoever launches its kernels. Everything else is in arrays on the device, so that two
/// steps of the same shape are the same launches.
struct StepShape {
  int64_t num_rows = 0;     // tokens; for decodes alone, padded up to a size that graphs are kept for
  int64_t num_decodes = 0;  // the first rows, one each; padded likewise
  int64_t num_chunks = 0;   // sequences that own the other rows
  int64_t num_tiles = 0;    // of the chunks' attention
  int64_t num_draws = 0;    // rows whose next token is drawn; without chunks, all rows
  bool combines = false;    // some decode's context is split
};

/// What a step reads on the device.
struct StepOnDevice {
  const StepArrays& arrays;
  const int32_t* block_tables;  // [slots, table_stride]
  int64_t table_stride;
  const int32_t* last_tokens;  // [slots]
};

/// One rank's part of the Llama forward pass on its device.
class CudaLlama {
 public:
  /// Loads the weights and reserves what a pass needs. `collective` outlives it, and is null for a group of one.
  CudaLlama(const ModelFiles& files, const CudaLlamaSizes& sizes, Device& device, NormingCollective* collective,
            const std::function<void(int64_t, int64_t)>& progress);

  /// Queues the step: new keys and values go into the cache, logits of the rows that draw into logits().
  void Forward(const StepShape& shape, const StepOnDevice& step, const CudaKvCache& cache);

  /// Times, once for each number of rows, how to compute such steps. Overwrites activations; not inside a graph.
  void Tune(int64_t num_rows);
  /// Or says so: norms, residual and activation inside our own matrix products, or one kernel for each.
  void SetFused(int64_t num_rows, bool fused) { fused_[num_rows] = fused && CanFuse(num_rows); }

  float* logits() const { return memory_.activations.logits; }  // [max_draws, logits_width]
  int64_t weight_bytes() const { return weights_.bytes(); }

 private:
  struct Memory {
    Memory(const ModelConfig& config, const CudaLlamaSizes& sizes, Pieces pieces);
    float* cos_sin;       // [max_model_len, head_dim]
    int32_t* head_start;  // [local kv heads + 1]
    float* workspace;     // of decode attention
    Activations activations;
    int64_t bytes;
  };

  bool CanFuse(int64_t num_rows) const;
  bool IsFused(int64_t num_rows) const;
  void BeforeAttention(const CudaLayerWeights& layer, void* delta, int64_t rows, bool fused);
  void FusedAfterAttention(const CudaLayerWeights& layer, int64_t rows);
  void AfterAttention(const CudaLayerWeights& layer, int64_t rows);
  void Attention(const StepShape& shape, const StepOnDevice& step, const kernels::PagedCache& cache);
  void Logits(const StepShape& shape, const StepOnDevice& step, void* delta);
  /// residual += the sum over ranks of delta, if there is one; normed = norm(residual).
  void Norm(void* delta, const void* weight, int64_t rows);
  GemmParams Product(const void* x, int64_t k, const void* weight, void* y, int64_t n, int64_t m) const;
  kernels::SkinnyGemmParams Fused(const void* x, int64_t k, const void* norm, const void* weight, void* out, int64_t n,
                                  int64_t m, kernels::SkinnyEpilogue epilogue) const;

  ModelConfig config_;
  CudaLlamaSizes sizes_;
  Device& device_;
  NormingCollective* collective_;
  CudaWeights weights_;
  Products products_;
  DeviceMemory reserved_;
  Memory memory_;
  std::map<int64_t, bool> fused_;  // by number of rows
  std::set<int64_t> tuned_;        // numbers of rows
};

}  // namespace quire
