#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/prefill/prefill_attention_plan.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Attention of prompt chunks over the paged keys and values of their sequences. The cache must already contain the
/// chunks' own keys and values. Query i of a sequence has position context_len - num_queries + i, and sees the
/// positions from max(0, position - window + 1) to its own. Slots that no query of a sequence sees never influence a
/// result, even if they contain NaN. Table entries of blocks without a visible token are not read. A single query is
/// allowed. Unless tiles are split, a row's bits depend only on its query and its visible positions, not on how the
/// prompt was cut into chunks.
struct PrefillAttentionParams {
  NumberType dtype;
  const void* queries;  // [num_tokens, num_heads, head_size], rows query_stride elements apart; 16-byte aligned
  int64_t query_stride;
  void* out;  // [num_tokens, num_heads, head_size], rows out_stride elements apart; 16-byte aligned
  int64_t out_stride;
  PagedCache cache;
  const int32_t* block_tables;  // rows table_stride entries apart
  int64_t table_stride;
  const int32_t* table_rows;   // [num_seqs]: each sequence's row of block_tables; null: its own index
  const int32_t* query_start;  // [num_seqs + 1]: sequence s owns rows [query_start[s], query_start[s + 1]) of queries
  const int32_t* context_len;  // [num_seqs], including the new tokens; 0: a padding sequence, whose rows are skipped
  const int32_t* head_start;   // [num_kv_heads + 1]: KV head g serves query heads [head_start[g], head_start[g + 1])
  const float* alibi_slopes;   // [num_heads] or null; slope * (key position - query position) is added to the score
  const PrefillTile* tiles;    // [num_tiles], from PlanPrefill()
  int32_t num_tiles;
  float scale;     // > 0
  float soft_cap;  // scores become soft_cap * tanh(score / soft_cap), before ALiBi; 0: no cap
  int32_t window;  // 0: no window
  /// [num_heads], or null: for each head an attention sink, a score that joins the softmax after scale and cap but has
  /// no value.
  const float* sinks = nullptr;
  const PrefillMerge* merges = nullptr;  // [num_merges] split tiles; none in fp32 or with heads beyond 256
  int32_t num_merges = 0;
  float* workspace = nullptr;  // PrefillSplit::WorkspaceFloats(), 16-byte aligned; null: no splits
  bool in_groups = false;      // use warpgroup products; requires HasPrefillInGroups()
};
void PrefillAttention(const CudaStream& stream, const PrefillAttentionParams& params);

/// True if the current device and this build support warpgroup products for this head size (sm_90a; 64 and 128).
bool HasPrefillInGroups(int32_t head_size);

}  // namespace quire::kernels
