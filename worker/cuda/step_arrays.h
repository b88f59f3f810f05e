#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/elementwise/step_state.h"
#include "kernels/cuda/prefill/prefill_attention_plan.h"
#include "kernels/cuda/sampling/sampling.h"
#include "worker/cuda/attention_kind.h"
#include "worker/cuda/device.h"
#include "worker/cuda/pieces.h"

namespace quire {

/// The most that a step, or any step, can hold.
struct StepLimits {
  int64_t tokens, sequences;
  // By kind of attention.
  int64_t decode_words[kMaxAttentionKinds] = {}, prefill_tiles[kMaxAttentionKinds] = {};
  int64_t prefill_merges[kMaxAttentionKinds] = {};
  int64_t state_blocks = 0;  // of a sequence's state; 0: there are none
};

/// Entries that lists of one sequence can have on the device; sequences with longer ones are drawn for on the host.
inline constexpr int64_t kMaxListEntries = 512;
/// Table entries and block copies that one upload carries; a step with more has several.
inline constexpr int64_t kEditsAtOnce = 16384;

/// All that kernels want to know of a step: T tokens, D decodes, C chunks, R rows that draw, B blocks of a state.
struct StepArrays {
  int32_t* token_ids;       // [T]
  int32_t* from_slot;       // [T] slot whose last drawn token this one is, or -1: it is in token_ids
  int32_t* positions;       // [T]
  int64_t* slots;           // [T] cache slot; -1: padding
  int32_t* decode_context;  // [D]
  int32_t* decode_table;    // [D] row of the block tables
  int32_t* chunk_start;     // [C + 1] first row, counted from the first chunk's
  int32_t* chunk_context;   // [C]
  int32_t* chunk_table;     // [C]
  // Of sequences with states, decodes first; empty where there are none.
  int32_t* state_start;                             // [D + C + 1] first row
  int32_t* state_context;                           // [D + C]; 0: padding
  int32_t* state_blocks;                            // [D + C, B]
  int32_t* draw_row;                                // [R]
  int32_t* draw_slot;                               // [R] where the drawn token is kept for the next step; -1: padding
  kernels::DeviceSampling* sampling;                // [R]
  kernels::PrefillTile* tiles[kMaxAttentionKinds];  // by kind of attention
  kernels::PrefillMerge* merges[kMaxAttentionKinds];
  int32_t* decode_work[kMaxAttentionKinds];
  // Lists of all rows: seldom used, and last.
  int64_t lists_at;  // bytes before them
  int32_t* bias_token;
  float* bias;
  int32_t* banned;
  int64_t end;  // bytes in all

  StepArrays(const StepLimits& limits, Pieces& pieces);
};

/// Memory for the arrays of steps: two sets that are page-locked, because the next step is put together while the last
/// one's may still be on their way, and one on the device. Arrays lie as closely as their step allows, so that one copy
/// brings little else; where, follows from the step's limits alone: graphs of one size find them at the same place.
class StepBuffers {
 public:
  StepBuffers(const StepLimits& most, Device& device);

  /// Places the next step's arrays, of no more than any step has; host and device differ in the addresses alone.
  void Begin(const StepLimits& step);
  StepArrays& Host() { return *host_; }
  const StepArrays& OnDevice() const { return *on_device_; }

  /// Queues the copy of what Host() holds, and turns to the other set.
  void Upload(int64_t num_biases, int64_t num_bans);

  int64_t device_bytes() const { return device_memory_.bytes(); }

 private:
  Device& device_;
  DeviceMemory host_memory_[2], device_memory_;
  std::optional<StepArrays> host_, on_device_;
  int current_ = 0;
};

}  // namespace quire
