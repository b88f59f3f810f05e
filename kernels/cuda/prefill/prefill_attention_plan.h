#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/paged_cache.h"

// Who computes what of a step's chunks: planned on the host from their lengths, read by the kernel from device memory.
// No CUDA in here.
namespace quire::kernels {

/// One item of work: rows [first_row, first_row + PrefillTileRows()) of a sequence, for every kv head. A row is one
/// query of one head: row = query * (heads of the kv head's group) + head within the group, so that all heads that
/// share a kv head read its keys and values once.
struct PrefillTile {
  int32_t sequence = -1;  // -1: nothing to do
  int32_t first_row = 0;
  int32_t num_keys = 0;  // positions from the first to the last that a row of any kv head sees: tiles are ordered by it
  /// Of a part of the positions, multiples of kPrefillCut; a row takes what it sees of them. Parts of a tile have all
  /// positions together: the first begins at 0 and the last one ends at INT32_MAX, since rows of kv heads with fewer
  /// query heads are later queries.
  int32_t begin = 0, end = INT32_MAX;
  int32_t slot = -1;  // of the workspace, for part of the positions; -1: all that there are
};
/// Slots first_slot .. first_slot + num_slots - 1 together are the results of a tile's rows.
struct PrefillMerge {
  int32_t sequence, first_row, first_slot, num_slots;
};

inline constexpr int32_t kPrefillCut = 128;
/// No part of a tile's positions is shorter: reading them must outweigh what is written and read again of its results.
inline constexpr int32_t kPrefillLeastPart = 512;

/// When the positions of tiles are split over thread blocks: a few new tokens behind a long cached prefix are few
/// tiles.
struct PrefillSplit {
  int32_t num_ctas = 0;  // that the device runs at once; 0: nothing is split
  int32_t kv_heads = 1;

  constexpr int64_t MaxSlots() const { return num_ctas / (kv_heads > 0 ? kv_heads : 1); }
  constexpr int64_t MaxMerges() const { return MaxSlots() / 2; }
  /// Of a row, behind its sums: the largest score, the sum of weights, and two to keep 16 bytes whole.
  static constexpr int64_t kRowExtra = 4;
  constexpr int64_t WorkspaceFloats(int64_t tile_rows, int64_t head_size) const {
    return MaxSlots() * kv_heads * tile_rows * (head_size + kRowExtra);
  }
};

/// Rows of a tile: what fits into the registers of a thread block.
constexpr int32_t PrefillTileRows(NumberType dtype, int32_t head_size) {
  return dtype == NumberType::kF32 || head_size > 256 ? 32 : head_size <= 128 ? 128 : 64;
}

/// Query heads of the kv head that has most, at least 1; kv head g serves heads [head_start[g], head_start[g + 1]).
int32_t LargestPrefillGroup(std::span<const int32_t> head_start);

/// Tiles that any step within these limits needs at most. max_group: LargestPrefillGroup().
constexpr int64_t PrefillTileCapacity(int64_t max_step_tokens, int64_t max_num_seqs, int64_t max_group,
                                      int64_t tile_rows, const PrefillSplit& split = {}) {
  return max_step_tokens * max_group / tile_rows + max_num_seqs + split.MaxSlots();
}

/// What PlanPrefill() looks at, in host memory; the names are those of PrefillAttentionParams.
struct PrefillPlanInputs {
  std::span<const int32_t> query_start;
  std::span<const int32_t> context_len;
  std::span<const int32_t> head_start;
  int32_t tile_rows;
  int32_t window;
  PrefillSplit split = {};
};

struct PrefillPlan {
  int64_t num_tiles, num_merges;
};

/// Cuts a step into tiles, those with the most keys first, so that the longest do not start last; where they leave part
/// of the device idle, those with many keys become several. The work list is made on the host, where the lengths are
/// known anyway, and travels with the step's data. The rest of `tiles`, which holds PrefillTileCapacity(), is filled
/// with tiles that do nothing, so that a launch of any fixed number >= the result is right. `merges` holds
/// PrefillSplit::MaxMerges().
PrefillPlan PlanPrefill(const PrefillPlanInputs& inputs, std::span<PrefillTile> tiles,
                        std::span<PrefillMerge> merges = {});

}  // namespace quire::kernels
