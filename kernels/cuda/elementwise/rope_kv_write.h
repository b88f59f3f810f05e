#pragma once

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Splits the rows that come out of the QKV projection, adds their biases and norms their heads where the model does
/// so, rotates queries in place, and writes rotated keys and values into their slots: one kernel instead of a split, a
/// reshape, a sum, two norms, two rotations and two scatters. Keys and values of the rows stay as they are but for
/// biases and norms. Dimension i of the first rotary_dim of a head rotates with dimension i + rotary_dim / 2.
struct RopeKvWriteParams {
  NumberType dtype;
  void* qkv;                 // [num_tokens, num_heads + 2 * num_kv_heads, head_size]: queries, keys, values
  int64_t row_stride;        // elements from row to row
  const float* cos_sin;      // [max_position, rotary_dim]: rotary_dim/2 cosines, then as many sines
  const int32_t* positions;  // [num_tokens]
  const int64_t* slots;      // [num_tokens], distinct: block id * block_size + offset; -1: the row is left alone
  int64_t num_tokens;
  int32_t num_heads;
  int32_t rotary_dim;  // even, at most head_size; 0: no rotation, cos_sin and positions are not read
  PagedCache cache;
  const void* bias = nullptr;        // [num_heads + 2 * num_kv_heads, head_size] of dtype, added to every row; or null
  const void* query_norm = nullptr;  // [head_size] of dtype: query = query / rms(query) * query_norm; or null
  const void* key_norm = nullptr;    // [head_size] of dtype, of keys likewise; null where query_norm is
  const void* value_norm = nullptr;  // [head_size] of dtype, of values likewise, where query_norm is; or null
  float epsilon = 0;                 // added to the mean of squares
  const float* query_cos_sin = nullptr;  // for queries instead of cos_sin; or null
  /// Norms of all queries and of all keys of a token together instead: query_norm [num_heads, head_size] and key_norm
  /// [num_kv_heads, head_size] then have a weight for each number. Without biases.
  const float* squares = nullptr;                      // [num_tokens, 2]: sums of squares of queries and keys; or null
  int64_t all_query_numbers = 0, all_key_numbers = 0;  // that were summed
};
void RopeKvWrite(const CudaStream& stream, const RopeKvWriteParams& params);

}  // namespace quire::kernels
