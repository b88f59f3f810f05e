#pragma once

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Processes the rows of the QKV product: adds biases, normalizes heads where the model does so, applies RoPE to
/// queries in place, and writes keys (with RoPE) and values into their slots. This one kernel replaces a split, a
/// reshape, a sum, rotations and two scatters. In the rows themselves, only biases and norms change keys and values;
/// with norm_rotated the keys in the rows are rotated, too. Dimension i of the first rotary_dim of a head rotates with
/// dimension i + rotary_dim / 2.
struct RopeKvWriteParams {
  NumberType dtype;
  void* qkv;                 // [num_tokens, num_heads + 2 * num_kv_heads, head_size]: queries, keys, values
  int64_t row_stride;        // elements between rows
  const float* cos_sin;      // [max_position, rotary_dim]: rotary_dim / 2 cosines, then as many sines
  const int32_t* positions;  // [num_tokens]
  const int64_t* slots;      // [num_tokens], distinct: block id * block_size + offset; -1: skip the row
  int64_t num_tokens;
  int32_t num_heads;
  int32_t rotary_dim;  // even, at most head_size; 0: no rotation, cos_sin and positions are unused
  PagedCache cache;
  const void* bias = nullptr;        // [num_heads + 2 * num_kv_heads, head_size] of dtype, added to rows; null: none
  const void* query_norm = nullptr;  // [head_size] of dtype: query = query / rms(query) * query_norm; null: no norm
  const void* key_norm = nullptr;    // [head_size] of dtype, the same for keys; null iff query_norm is
  const void* value_norm = nullptr;  // [head_size] of dtype, the same for values; requires query_norm; null: no norm
  bool norm_rotated = false;         // heads are normed after their rotation; excludes squares and query_cos_sin
  float epsilon = 0;                 // added to the mean of squares
  const float* query_cos_sin = nullptr;  // replaces cos_sin for queries; null: cos_sin
  /// If `squares` is not null, all queries of a token are normalized together, and so are all its keys. query_norm is
  /// then [num_heads, head_size], and key_norm [num_kv_heads, head_size]. There must be no biases.
  const float* squares = nullptr;                      // [num_tokens, 2]: sums of squares of queries and keys; or null
  int64_t all_query_numbers = 0, all_key_numbers = 0;  // numbers that were summed
};
void RopeKvWrite(const CudaStream& stream, const RopeKvWriteParams& params);

}  // namespace quire::kernels
