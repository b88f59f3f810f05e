#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/paged_cache.h"

// The work list of a step's prompt chunks. The host makes the list from the lengths of the chunks, and the kernel reads
// the list from device memory. This file uses no CUDA.
namespace quire::kernels {

/// A work item: rows [first_row, first_row + PrefillTileRows()) of a sequence, for every KV head. A row is one query
/// of one head: row = query * (heads of the KV head's group) + head within the group. All heads that share a KV head
/// thus read its keys and values once.
struct PrefillTile {
  int32_t sequence = -1;  // -1: no work
  int32_t first_row = 0;
  int32_t num_keys = 0;  // positions from the first to the last that any row sees, over all KV heads; sorts the tiles
  /// The range of positions of a part; its ends are multiples of kPrefillCut. A row uses the positions of the range
  /// that it sees. The parts of a tile cover all positions, from 0 to INT32_MAX: the fewer query heads a KV head has,
  /// the later are the queries of the tile's rows, and the later are the positions that they see.
  int32_t begin = 0, end = INT32_MAX;
  int32_t slot = -1;  // workspace slot of a part; -1: the tile is not split
};
/// Slots first_slot .. first_slot + num_slots - 1 together give the results of a tile's rows.
struct PrefillMerge {
  int32_t sequence, first_row, first_slot, num_slots;
};

inline constexpr int32_t kPrefillCut = 128;
/// The shortest part of a tile's positions. Shorter parts would save less time than writing and reading their partial
/// results takes.
inline constexpr int32_t kPrefillLeastPart = 512;

/// Decides when the positions of a tile are split over thread blocks: a few new tokens after a long cached prefix give
/// only a few tiles.
struct PrefillSplit {
  int32_t num_ctas = 0;  // thread blocks that fit on the device at the same time; 0: no splits
  int32_t kv_heads = 1;

  constexpr int64_t MaxSlots() const { return num_ctas / (kv_heads > 0 ? kv_heads : 1); }
  constexpr int64_t MaxMerges() const { return MaxSlots() / 2; }
  /// Floats of a row after its sums: the largest score, the sum of weights, and two of padding to 16 bytes.
  static constexpr int64_t kRowExtra = 4;
  constexpr int64_t WorkspaceFloats(int64_t tile_rows, int64_t head_size) const {
    return MaxSlots() * kv_heads * tile_rows * (head_size + kRowExtra);
  }
};

/// Returns the number of rows of a tile. The registers of a thread block limit it.
constexpr int32_t PrefillTileRows(NumberType dtype, int32_t head_size) {
  return dtype == NumberType::kF32 || head_size > 256 ? 32 : head_size <= 128 ? 128 : 64;
}

/// Returns the largest number of query heads of any KV head, at least 1. KV head g serves heads [head_start[g],
/// head_start[g + 1]).
int32_t LargestPrefillGroup(std::span<const int32_t> head_start);

/// Returns the largest number of tiles that a step within these limits can have. max_group: LargestPrefillGroup().
constexpr int64_t PrefillTileCapacity(int64_t max_step_tokens, int64_t max_num_seqs, int64_t max_group,
                                      int64_t tile_rows, const PrefillSplit& split = {}) {
  return max_step_tokens * max_group / tile_rows + max_num_seqs + split.MaxSlots();
}

/// The inputs of PlanPrefill(), in host memory; named as in PrefillAttentionParams.
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

/// Cuts a step into tiles, those with the most keys first, so that long tiles do not start last. If the tiles leave
/// part of the device idle, tiles with many keys are split. `tiles` has PrefillTileCapacity() entries; unused ones
/// become tiles without work, so any launch of at least the returned number is correct. `merges` has
/// PrefillSplit::MaxMerges() entries.
PrefillPlan PlanPrefill(const PrefillPlanInputs& inputs, std::span<PrefillTile> tiles,
                        std::span<PrefillMerge> merges = {});

}  // namespace quire::kernels
