#pragma once

#include <span>

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// One item of work: rows [first_row, first_row + PrefillTileRows()) of a sequence, for every kv head. A row is one
/// query of one head: row = query * (heads of the kv head's group) + head within the group, so that all heads that
/// share a kv head read its keys and values once.
struct PrefillTile {
  int32_t sequence;  // -1: nothing to do
  int32_t first_row;
  int32_t num_keys;  // positions that the tile's rows see together: what tiles are ordered by
};

/// Attention of chunks of new tokens over the paged keys and values of their sequences, the chunks' own included
/// (written before). Query i of a sequence stands at position context_len - num_queries + i and sees positions
/// max(0, position - window + 1) .. position. Slots that no query of a sequence sees never reach a result, NaNs in them
/// included, and table entries of blocks wholly outside are not followed. One query is as good as many: a row's bits
/// depend on its query and the positions it sees alone, not on how the prompt was cut into chunks.
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
};
void PrefillAttention(const CudaStream& stream, const PrefillAttentionParams& params);

/// Rows of a tile: what fits into the registers of a thread block.
constexpr int32_t PrefillTileRows(NumberType dtype, int32_t head_size) {
  return dtype == NumberType::kF32 || head_size > 256 ? 32 : head_size <= 128 ? 128 : 64;
}

/// Tiles that any step within these limits needs at most. max_group: heads of the largest kv head's group.
constexpr int64_t PrefillTileCapacity(int64_t max_step_tokens, int64_t max_num_seqs, int64_t max_group,
                                      int64_t tile_rows) {
  return max_step_tokens * max_group / tile_rows + max_num_seqs;
}

/// What PlanPrefill() looks at, in host memory; the names are those of PrefillAttentionParams.
struct PrefillPlanInputs {
  std::span<const int32_t> query_start;
  std::span<const int32_t> context_len;
  int32_t max_group;
  int32_t tile_rows;
  int32_t window;
};

/// Cuts a step into tiles, those with the most keys first, so that the longest do not start last. The work list is made
/// on the host, where the lengths are known anyway, and travels with the step's data. Returns how many there are; the
/// rest of `tiles`, which holds PrefillTileCapacity(), is filled with tiles that do nothing, so that a launch of any
/// fixed number >= the result is right.
int64_t PlanPrefill(const PrefillPlanInputs& inputs, std::span<PrefillTile> tiles);

}  // namespace quire::kernels
