#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/elementwise/step_state.h"
#include "kernels/cuda/prefill/prefill_attention.h"
#include "kernels/cuda/sampling/sampling.h"
#include "worker/cuda/attention_kind.h"
#include "worker/cuda/device.h"
#include "worker/cuda/pieces.h"

namespace quire {

/// The most that a step can hold.
struct StepLimits {
  int64_t tokens, sequences;
  std::vector<AttentionSizes> attention;  // by kind
  int64_t state_blocks = 0;               // of a sequence's state; 0: there are none
};

/// Entries that lists of one sequence can have on the device; sequences with longer ones are drawn for on the host.
inline constexpr int64_t kMaxListEntries = 512;
/// Table entries and block copies that one upload carries; a step with more has several.
inline constexpr int64_t kEditsAtOnce = 16384;

/// All that kernels want to know of a step: T tokens, D decodes, C chunks, R rows that draw, B blocks of a state. The
/// arrays lie at the same place for every step.
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
  int32_t* decode_work[kMaxAttentionKinds];
  // Lists of all rows: seldom used, and last.
  int64_t lists_at;  // bytes before them
  int32_t* bias_token;
  float* bias;
  int32_t* banned;
  int64_t end;  // bytes in all

  StepArrays(const StepLimits& limits, Pieces& pieces);
};

/// The arrays of steps: two sets in page-locked memory, because the next step is put together while the last one's may
/// still be on their way, and one on the device.
class StepBuffers {
 public:
  StepBuffers(const StepLimits& limits, Device& device);

  StepArrays& Host() { return host_[current_]; }
  const StepArrays& OnDevice() const { return on_device_; }

  /// Queues the copy of what Host() holds, and turns to the other set. `with_lists`: lists, too.
  void Upload(bool with_lists);

  int64_t device_bytes() const { return device_memory_.bytes(); }

 private:
  Device& device_;
  DeviceMemory host_memory_[2], device_memory_;
  StepArrays host_[2], on_device_;
  int current_ = 0;
};

}  // namespace quire
