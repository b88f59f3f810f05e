#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/paged_cache.h"

// Who computes what in a decode step: planned on the host from this batch's lengths, read by the kernel from device
// memory, so that one launch (and one CUDA graph) serves every mix of lengths. No CUDA in here.
namespace quire::kernels {

/// Query heads that share a kv head are rows of one tensor-core tile; a larger group is several head tiles.
inline constexpr int32_t kDecodeRows = 16;
/// Contexts are cut at multiples of this many tokens.
inline constexpr int32_t kDecodeUnit = 64;
/// No part of a split context is shorter, in units: what a part costs besides its tokens must stay small.
inline constexpr int32_t kDecodeMinUnits = 4;

/// One stretch of one sequence's context for one head tile.
struct DecodeItem {
  int32_t seq, kv_head, first_head, num_heads;
  int32_t begin, end;  // positions that count; none: the result is 0
  int32_t context;
  int32_t slot;  // of the workspace, or -1: the result is complete
};
/// Slots first_slot .. first_slot + num_slots - 1 together are the result of one sequence and head tile.
struct DecodeMerge {
  int32_t seq, first_head, num_heads, first_slot, num_slots;
  int32_t unused[3];
};

/// Tiles for groups [head_start[g], head_start[g + 1]) of query heads, g < num_kv_heads; empty groups have none.
int32_t NumHeadTiles(std::span<const int32_t> head_start);

/// What a work list can hold, fixed for the life of an engine, in 32-bit words:
///   [num_merges, 0, 0, 0][first item of every CTA, and the end][merges][items]
/// A list of num_ctas CTAs has at most num_ctas - 1 cuts.
struct DecodeWorkSize {
  int32_t num_ctas;
  int32_t max_pairs;  // max_num_seqs * NumHeadTiles()

  constexpr int64_t MaxItems() const { return int64_t{max_pairs} + num_ctas - 1; }
  constexpr int64_t MaxMerges() const { return num_ctas - 1; }
  constexpr int64_t MaxSlots() const { return 2 * (int64_t{num_ctas} - 1); }
  constexpr int64_t FirstItemsAt() const { return 4; }
  constexpr int64_t MergesAt() const { return FirstItemsAt() + (int64_t{num_ctas} + 1 + 3) / 4 * 4; }
  constexpr int64_t ItemsAt() const { return MergesAt() + MaxMerges() * 8; }
  constexpr int64_t Words() const { return ItemsAt() + MaxItems() * 8; }
  constexpr int64_t Bytes() const { return Words() * 4; }
  constexpr int64_t WorkspaceFloats(int64_t head_size) const { return MaxSlots() * kDecodeRows * (head_size + 2); }
};

struct DecodePlan {
  bool combine;        // some context is split: the combining kernel has work
  int64_t used_words;  // of the work list: the rest needs no copy
};

/// Writes the work list of a batch: context_len.size() sequences (0 tokens are allowed: rows that pad a batch to a
/// graph's size) times the head tiles. Every CTA gets about as many units; contexts are only split where whole ones
/// leave a CTA with too much or too little. `work` has size.Words() words, 16-byte aligned.
DecodePlan PlanDecode(const DecodeWorkSize& size, std::span<const int32_t> context_len,
                      std::span<const int32_t> head_start, int32_t window, std::span<int32_t> work,
                      int32_t min_units = kDecodeMinUnits);

/// The device that the kernel runs on; sizes in bytes.
struct DecodeDevice {
  int32_t num_sms;
  int64_t shared_per_sm, shared_per_block;
};
struct DecodeGrid {
  int32_t num_ctas;
  int32_t stages;  // tiles in shared memory: one in use, the others on their way
};
/// Two CTAs on an SM where each can have three stages, else one with all it can get.
DecodeGrid ChooseDecodeGrid(const DecodeDevice& device, NumberType dtype, NumberType cache, int32_t head_size);

/// Queries stay in registers as long as an item lasts, if there is room for them.
constexpr bool DecodeKeepsQueries(int32_t head_size) { return head_size <= 128; }
/// Tokens of a stage, its bytes (keys, values, queries of one head tile), and those that a CTA has besides its stages.
constexpr int64_t DecodeTile(int32_t head_size) { return head_size > 128 ? 32 : 64; }
constexpr int64_t DecodeStageBytes(NumberType dtype, NumberType cache, int32_t head_size) {
  return head_size * (2 * DecodeTile(head_size) * ByteSize(cache) + kDecodeRows * ByteSize(dtype));
}
constexpr int64_t DecodeExtraBytes(NumberType dtype, int32_t head_size) {
  return 1024 + (DecodeKeepsQueries(head_size) ? 0 : kDecodeRows * head_size * ByteSize(dtype));
}

}  // namespace quire::kernels
