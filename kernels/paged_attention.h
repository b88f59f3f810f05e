#pragma once

#include "kernels/kv_cache.h"
#include "kernels/matmul.h"

namespace quire::kernels {

/// Causal attention over paged keys and values, for prefill chunks and decodes in one call.
/// The queries of sequence s are its last query_start[s+1] - query_start[s] tokens; query i of them stands at
/// position context_len[s] - num_queries + i and sees every earlier position of its window and itself.
/// Batch-invariant: a query's result depends on its own vector and its context alone, not on its neighbours
/// nor on how the prompt was cut into chunks. Slots beyond the context or before the window are never read into a
/// result, and table entries of blocks that lie wholly before every query's window are not followed.
/// Without a twin: CUDA has an op for chunks and several for decodes, whose work the host plans, and a cache of another
/// layout (cuda/prefill_attention.h, cuda/decode_attention.h, cuda/paged_decode.h).
struct PagedAttentionParams {
  const float* queries;  // [num_queries, num_heads, head_dim], rows query_stride floats apart
  int64_t query_stride;
  float* out;  // [num_queries, num_heads * head_dim], rows out_stride floats apart
  int64_t out_stride;
  KvCacheView cache;
  const int32_t* block_tables;  // [num_sequences, table_stride]
  int64_t table_stride;
  const int32_t* query_start;  // [num_sequences + 1], query_start[0] == 0
  const int32_t* context_len;  // [num_sequences], the sequence's new tokens counted in
  const int32_t* head_start;   // [num_kv_heads + 1]: kv head g serves query heads [head_start[g], head_start[g+1])
  int64_t num_sequences;
  int64_t num_heads;
  float scale;
  int64_t window;                       // a query at position p sees positions p - window + 1 .. p; 0: all
  float soft_cap = 0;                   // scores become soft_cap * tanh(score / soft_cap); 0: they stay
  const float* alibi_slopes = nullptr;  // [num_heads]: slope * (key position - query position) joins the score; or null
  /// kInt8: where the cache is of bytes, queries and weights are rounded to bytes, too: a query to 127 steps either
  /// way, the weights of each kSpanSlots slots to 255. All that is said above holds. Blocks and heads whose sizes are
  /// no multiples of 16 are multiplied as without it.
  Activations activations = Activations::kInt16;
  /// [num_heads]: of each head a score that joins the softmax, after scale and cap, and has no value; or null
  const float* sinks = nullptr;
};
void PagedAttention(const CpuStream& stream, const PagedAttentionParams& params);

}  // namespace quire::kernels
