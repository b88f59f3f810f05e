#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/elementwise/step_state.h"
#include "kernels/cuda/prefill/prefill_attention_plan.h"
#include "kernels/cuda/sampling/sampling.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/device/pieces.h"
#include "worker/cuda/step/attention_kind.h"

namespace quire {

/// The sizes of a step's arrays, for one step or for the largest step.
struct StepLimits {
  int64_t tokens, sequences;
  // The numbers of words of the decodes' work list, of prefill tiles and of prefill merges, indexed by kind of
  // attention.
  int64_t decode_words[kMaxAttentionKinds] = {}, prefill_tiles[kMaxAttentionKinds] = {};
  int64_t prefill_merges[kMaxAttentionKinds] = {};
  int64_t state_blocks = 0;  // blocks per sequence's state; 0: no states
};

/// The device samples for a sequence only if the sequence has at most this many logit biases and at most this many
/// banned tokens. For other sequences, the host samples.
inline constexpr int64_t kMaxListEntries = 512;
/// The most table entries, and block copies, per upload; a step with more uses several uploads.
inline constexpr int64_t kEditsAtOnce = 16384;

/// A step's inputs to the kernels, for T tokens, D decodes, C chunks, R rows for which tokens are sampled, and states
/// of B blocks.
struct StepArrays {
  int32_t* token_ids;       // [T]
  int32_t* from_slot;       // [T] slot with this token as its last sampled one; -1: the token is in token_ids
  int32_t* positions;       // [T]
  int64_t* slots;           // [T] cache slot; -1: padding
  int32_t* decode_context;  // [D]
  int32_t* decode_table;    // [D] row of the block tables: the slot
  int32_t* chunk_start;     // [C + 1] first row, relative to the first chunk's
  int32_t* chunk_context;   // [C]
  int32_t* chunk_table;     // [C]
  // The state_ arrays are for sequences with states, decodes first. These arrays are empty in models without states.
  int32_t* state_start;                             // [D + C + 1] first row
  int32_t* state_context;                           // [D + C]; 0: padding
  int32_t* state_blocks;                            // [D + C, B]
  int32_t* draw_row;                                // [R]
  int32_t* draw_slot;                               // [R] slot that stores the token for the next step; -1: padding
  kernels::DeviceSampling* sampling;                // [R]
  kernels::PrefillTile* tiles[kMaxAttentionKinds];  // indexed by kind of attention
  kernels::PrefillMerge* merges[kMaxAttentionKinds];
  int32_t* decode_work[kMaxAttentionKinds];
  // The biases and banned tokens of all rows are at the end, because most steps have none.
  int64_t lists_at;  // bytes before the lists
  int32_t* bias_token;
  float* bias;
  int32_t* banned;
  int64_t end;  // total bytes

  StepArrays(const StepLimits& limits, Pieces& pieces);
};

/// Memory for the arrays of steps: two page-locked sets on the host, because the next step is built while the last
/// step's copy may still run, and one set on the device. Arrays are packed as tightly as the step's sizes allow, so
/// that one copy transfers few unused bytes. The addresses of the arrays depend only on the step's limits, so graphs of
/// one size find them at the same addresses.
class StepBuffers {
 public:
  StepBuffers(const StepLimits& most, Device& device);

  /// Places the arrays of the next step, which must not be larger than the largest step. Host and device arrays have
  /// the same layout.
  void Begin(const StepLimits& step);
  StepArrays& Host() { return *host_; }
  const StepArrays& OnDevice() const { return *on_device_; }

  /// Queues the copy of Host() to the device and switches to the other set. Copies only the first num_biases biases and
  /// the first num_bans banned tokens.
  void Upload(int64_t num_biases, int64_t num_bans);

  int64_t device_bytes() const { return device_memory_.bytes(); }

 private:
  Device& device_;
  DeviceMemory host_memory_[2], device_memory_;
  std::optional<StepArrays> host_, on_device_;
  int current_ = 0;
};

}  // namespace quire
