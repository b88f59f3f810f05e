#pragma once

#include "comm/model/model_spec.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/pieces.h"
#include "worker/model/shard.h"

namespace quire {

/// Device buffers of latent attention, for T tokens, in the model's type. Two buffers are in Activations: `qkv` [T,
/// local heads, rotated_dim + rank] holds the queries in the form that is multiplied by cached rows, and `attended` [T,
/// local heads, rank] holds the weighted means of latents. All buffers of this struct are null in models without latent
/// attention.
struct CudaLatentActivations {
  CudaLatentActivations(const ModelSpec& spec, const RankShard& shard, NumberType dtype, int64_t max_tokens,
                        Pieces& pieces) {
    const LatentAttention& latent = spec.latent;
    if (latent.rank == 0) return;
    const auto rows = [&](int64_t width) -> void* { return pieces.Take(max_tokens * width * ByteSize(dtype)); };
    in = rows(latent.rank + latent.rotated_dim);
    query_in = rows(latent.query_rank);
    query_normed = rows(latent.query_rank);
    queries = rows(shard.heads.size() * latent.query_dim());
    values = rows(shard.heads.size() * latent.value_dim);
  }

  void* in = nullptr;                                 // [T, rank + rotated_dim]: the row to cache, before its norm
  void *query_in = nullptr, *query_normed = nullptr;  // [T, query_rank]; size 0 without a low-rank input
  void* queries = nullptr;                            // [T, local heads, query_dim]
  void* values = nullptr;                             // [T, local heads * value_dim]
};

}  // namespace quire
