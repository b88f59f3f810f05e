#pragma once

#include "kernels/kv_cache.h"
#include "kernels/matmul.h"

namespace quire::kernels {

/// Attention over paged keys and values, for prefill chunks and decodes in one call. The queries of sequence s are its
/// last query_start[s+1] - query_start[s] tokens, or those from first_position[s] on. Query i has position
/// context_len[s] - num_queries + i, or first_position[s] + i; it sees itself and every earlier position within its
/// window. With both_ways, it also sees every later position within its window.
/// Batch-invariant: a query's result depends on its vector and its context alone, not on other queries or on how the
/// prompt was cut into chunks. Slots beyond the context, before the window or context_begin never influence a result.
/// Table entries of blocks entirely before all queries' windows are not followed.
/// CPU only: CUDA has separate ops for chunks and decodes, which the host plans, and another cache layout
/// (cuda/prefill/prefill_attention.h, cuda/decode/decode_attention.h, cuda/paged/paged_decode.h).
struct PagedAttentionParams {
  const float* queries;  // [num_queries, num_heads, head_dim], rows query_stride floats apart
  int64_t query_stride;
  float* out;  // [num_queries, num_heads * head_dim], rows out_stride floats apart
  int64_t out_stride;
  KvCacheView cache;
  const int32_t* block_tables;  // [num_sequences, table_stride] block ids
  int64_t table_stride;
  const int32_t* query_start;  // [num_sequences + 1], query_start[0] == 0
  const int32_t* context_len;  // [num_sequences], including the step's new tokens
  const int32_t* head_start;   // [num_kv_heads + 1]: KV head g serves query heads [head_start[g], head_start[g+1])
  int64_t num_sequences;
  int64_t num_heads;
  float scale;
  int64_t window;      // a query at position p sees positions (p - window, p]; 0: all up to p
  float soft_cap = 0;  // scores become soft_cap * tanh(score / soft_cap); 0: no cap
  /// [num_heads]: -slope * |key position - query position| is added to a score; null: no ALiBi.
  const float* alibi_slopes = nullptr;
  /// kInt8: if the cache is int8, queries and weights are also rounded to bytes: a query to [-127, 127], the weights
  /// of each kSpanSlots slots to [0, 255]. All promises above still hold. A block size or head size that is not a
  /// multiple of 16 disables this.
  Activations activations = Activations::kInt16;
  /// [num_heads]: a score per head that joins the softmax after scale and cap but has no value (attention sink); null:
  /// no sinks.
  const float* sinks = nullptr;
  /// True: a query at position p sees the positions above p - window and below p + window or, without a window, the
  /// whole context.
  bool both_ways = false;
  /// [num_heads, 2 * relative_reach + 1]: a number for the distance of key and query, key position - query position,
  /// from -relative_reach to relative_reach, which is added to a score after scale and cap; null: nothing is added.
  /// Farther keys get the number of the farthest distance on their side. Must be null with ALiBi.
  const float* relative_bias = nullptr;
  int64_t relative_reach = 0;
  /// [num_sequences]: positions of the sequences' first queries; null: the queries are the last tokens. This list
  /// requires both_ways.
  const int32_t* first_position = nullptr;
  /// [num_sequences]: the first position of each context that its queries see, at most the first query's own position;
  /// null: position 0.
  const int32_t* context_begin = nullptr;
  /// How many numbers of each head's result are written, from the first on: `out` is then [num_queries, num_heads *
  /// out_dim]. 0: all.
  int64_t out_dim = 0;

  int64_t out_size() const { return out_dim > 0 ? out_dim : cache.head_dim; }
  int64_t begin_of(int64_t sequence) const { return context_begin == nullptr ? 0 : context_begin[sequence]; }
};
void PagedAttention(const CpuStream& stream, const PagedAttentionParams& params);

}  // namespace quire::kernels
