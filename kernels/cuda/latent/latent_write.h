#pragma once

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Makes the cached rows of new tokens and the rotated parts of their queries, between the products of latent attention
/// (comm/model/latent_attention.h). For each token: the latent is normed, the shared key is rotated, and both go into
/// the token's slot, the key first. The last rotated_dim numbers of each head's query are rotated and become the first
/// numbers of the query in `out`; its other numbers stay as they are. Dimension i of the rotated ones turns with
/// dimension i + rotated_dim / 2; with `interleaved`, these two lie side by side in `rows` and `queries`.
struct LatentWriteParams {
  NumberType dtype;
  const void* rows;     // [num_tokens, rank + rotated_dim]: latents, then the keys to rotate
  const void* norm;     // [rank]: latent = latent / rms(latent) * norm
  float epsilon;        // added to the mean of squares
  const void* queries;  // [num_tokens, num_heads, query_dim]
  void* out;            // [num_tokens, num_heads, rotated_dim + rank]
  int32_t num_heads, query_dim, rotated_dim, rank;
  bool interleaved;
  const float* cos_sin;      // [max_position, rotated_dim]: rotated_dim / 2 cosines, then as many sines
  const int32_t* positions;  // [num_tokens]
  const int64_t* slots;      // [num_tokens], distinct: block id * block_size + offset; -1: skip the token
  int64_t num_tokens;
  PagedCache cache;  // num_kv_heads 1, head_size rotated_dim + rank; values are not written
};
void LatentWrite(const CudaStream& stream, const LatentWriteParams& params);

}  // namespace quire::kernels
