#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/paged_cache.h"

// The work list of decode attention. The host makes the list from the lengths of the batch's contexts, and the kernel
// reads the list from device memory, so that one launch (and one CUDA graph) serves any lengths. This file uses no
// CUDA.
namespace quire::kernels {

/// Rows of a tensor-core tile: query heads that share a KV head. A larger group takes several head tiles.
inline constexpr int32_t kDecodeRows = 16;
/// Contexts are split at multiples of this many tokens.
inline constexpr int32_t kDecodeUnit = 64;
/// The shortest part of a split context, in units. Shorter parts would have too much overhead.
inline constexpr int32_t kDecodeMinUnits = 4;

/// A range of one sequence's context for one head tile.
struct DecodeItem {
  int32_t seq, kv_head, first_head, num_heads;
  int32_t begin, end;  // visible positions; empty: the result is 0
  int32_t context;
  int32_t slot;  // workspace slot; -1: this item's result is final
};
/// Slots first_slot .. first_slot + num_slots - 1 together are the result of one sequence and head tile.
struct DecodeMerge {
  int32_t seq, first_head, num_heads, first_slot, num_slots;
  int32_t unused[3];
};

/// Returns the number of head tiles for the groups of query heads [head_start[g], head_start[g + 1]), g < num_kv_heads.
/// An empty group has no tile.
int32_t NumHeadTiles(std::span<const int32_t> head_start);

/// The size of a work list, fixed for the life of an engine. A list consists of 32-bit words: [num_merges, 0, 0,
/// 0][first item of each CTA, and the end][merges][items]. A list for num_ctas CTAs has at most num_ctas - 1 splits.
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
  bool combine;        // true: some context is split, so the combining kernel has work
  int64_t used_words;  // used words of the work list; only these need a copy
};

/// Writes the work list of a batch of context_len.size() sequences, for all their head tiles. (Length 0 is allowed, for
/// padding rows of a graph.) Each CTA gets about equally many units. A context is split only if whole contexts would
/// leave some CTA with too much or too little work. Each part of a split context has at least min_units units. `work`
/// has size.Words() words, 16-byte aligned.
DecodePlan PlanDecode(const DecodeWorkSize& size, std::span<const int32_t> context_len,
                      std::span<const int32_t> head_start, int32_t window, std::span<int32_t> work,
                      int32_t min_units = kDecodeMinUnits);

/// The device on which the kernel runs; sizes in bytes.
struct DecodeDevice {
  int32_t num_sms;
  int64_t shared_per_sm, shared_per_block;
};
struct DecodeGrid {
  int32_t num_ctas;
  int32_t stages;  // tiles in shared memory: one in use, the others being loaded
};
/// Returns the grid of the kernel: two CTAs per SM if each can have three stages, otherwise one. A CTA has as many
/// stages as fit, at most 4.
DecodeGrid ChooseDecodeGrid(const DecodeDevice& device, NumberType dtype, NumberType cache, int32_t head_size);

/// Returns whether queries stay in registers for a whole item: only if there are enough registers.
constexpr bool DecodeKeepsQueries(int32_t head_size) { return head_size <= 128; }
/// DecodeTile: the tokens of a stage. DecodeStageBytes: the bytes of a stage (keys, values, queries of one head tile).
/// DecodeExtraBytes: the bytes of a CTA besides its stages.
constexpr int64_t DecodeTile(int32_t head_size) { return head_size > 128 ? 32 : 64; }
constexpr int64_t DecodeStageBytes(NumberType dtype, NumberType cache, int32_t head_size) {
  return head_size * (2 * DecodeTile(head_size) * ByteSize(cache) + kDecodeRows * ByteSize(dtype));
}
constexpr int64_t DecodeExtraBytes(NumberType dtype, int32_t head_size) {
  return 1024 + (DecodeKeepsQueries(head_size) ? 0 : kDecodeRows * head_size * ByteSize(dtype));
}

}  // namespace quire::kernels
