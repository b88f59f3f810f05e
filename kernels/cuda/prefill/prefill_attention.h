#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/prefill/prefill_attention_plan.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Attention of chunks of new tokens over the paged keys and values of their sequences, the chunks' own included
/// (written before). Query i of a sequence stands at position context_len - num_queries + i and sees positions
/// max(0, position - window + 1) .. position. Slots that no query of a sequence sees never reach a result, NaNs in them
/// included, and table entries of blocks wholly outside are not followed. One query is as good as many: as long as
/// nothing is split, a row's bits depend on its query and the positions it sees alone, not on how the prompt was cut
/// into chunks.
struct PrefillAttentionParams {
  NumberType dtype;
  const void* queries;  // [num_tokens, num_heads, head_size], rows query_stride elements apart; 16-byte aligned
  int64_t query_stride;
  void* out;  // [num_tokens, num_heads, head_size], rows out_stride elements apart; 16-byte aligned
  int64_t out_stride;
  PagedCache cache;
  const int32_t* block_tables;  // rows table_stride entries apart
  int64_t table_stride;
  const int32_t* table_rows;   // [num_seqs]: a sequence's row of block_tables; null: its own index
  const int32_t* query_start;  // [num_seqs + 1]: sequence s owns rows [query_start[s], query_start[s + 1]) of queries
  const int32_t* context_len;  // [num_seqs], the new tokens counted in; 0: a padded sequence, its rows are left alone
  const int32_t* head_start;   // [num_kv_heads + 1]: kv head g serves query heads [head_start[g], head_start[g + 1])
  const float* alibi_slopes;   // [num_heads] or null; slope * (key position - query position) joins the score
  const PrefillTile* tiles;    // [num_tiles], by PlanPrefill()
  int32_t num_tiles;
  float scale;     // > 0
  float soft_cap;  // scores become soft_cap * tanh(score / soft_cap), before ALiBi; 0: they stay
  int32_t window;  // 0: all
  /// [num_heads] or null: of each head a score that joins the softmax, after scale and cap, and has no value
  const float* sinks = nullptr;
  const PrefillMerge* merges = nullptr;  // [num_merges], of tiles that are split: none in fp32 or of heads beyond 256
  int32_t num_merges = 0;
  float* workspace = nullptr;  // PrefillSplit::WorkspaceFloats(), 16-byte aligned; null: nothing is split
  bool in_groups = false;      // products by whole warpgroups, where HasPrefillInGroups()
};
void PrefillAttention(const CudaStream& stream, const PrefillAttentionParams& params);

/// Whether the current device, and this build, multiply by warpgroups for heads of that size (sm_90a; 64 and 128).
bool HasPrefillInGroups(int32_t head_size);

}  // namespace quire::kernels
