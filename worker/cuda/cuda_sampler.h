#pragma once

#include <vector>

#include "comm/collective/device_collective.h"
#include "kernels/cuda/sampling_shards.h"
#include "worker/cuda/device.h"
#include "worker/cuda/step_arrays.h"
#include "worker/sequence_table.h"
#include "worker/shard.h"

namespace quire {

/// Who draws in a step, and how.
struct DrawPlan {
  std::vector<SlotId> slots;      // of the rows that draw
  std::vector<size_t> host_rows;  // of those: rows whose settings only the host's sampler knows
  int num_candidates = 0;         // that each shard reports for a row; part of the shape of the launches
  bool has_lists = false;         // biases or bans
  bool surely_on_device = true;   // no row can turn out to need the host
};

/// Draws the step's tokens on the device, from a vocabulary in shards, with the meaning of kernels/sampling.h. All ranks
/// draw the same tokens.
class CudaSampler {
 public:
  /// `max_rows` at once; slots 0 .. max_running - 1. `collective` is null for a group of one.
  CudaSampler(const std::vector<RankShard>& shards, Rank rank, int64_t max_rows, int64_t max_running, Device& device,
              DeviceCollective* collective);

  /// Writes what the members that draw want into the arrays; rows from the last of them to num_rows are padding.
  DrawPlan Prepare(const std::vector<BatchMember>& batch, const SequenceTable& table, int64_t num_rows,
                   StepArrays& arrays);
  /// Counts of a slot's tokens must be made anew before it draws with penalties again.
  void ForgetCounts(SlotId slot) { counted_[slot] = 0; }

  /// Queues the draws from logits [num_rows, row_stride], and keeps the tokens in last_tokens().
  void Draw(int64_t num_rows, int num_candidates, const StepArrays& arrays, const float* logits, int64_t row_stride);
  /// Queues the way back of what was drawn; `set` is 0 or 1, of which one may still be read.
  void CopyResults(int64_t num_rows, int set);
  /// Once that has run: the tokens. Rows that are left to the host are drawn from logits, collectively.
  std::vector<SampledToken> Collect(const DrawPlan& plan, int set, const SequenceTable& table, const float* logits,
                                    int64_t row_stride);

  const int32_t* last_tokens() const { return last_tokens_; }  // [max_running] on the device

 private:
  struct Memory;
  kernels::SamplingRows Rows(int64_t num_rows, const StepArrays& arrays, const float* logits, int64_t stride) const;
  void CountTokens(SlotId slot, const SequenceState& sequence);
  std::vector<float> WholeRow(const float* logits);

  std::vector<RankShard> shards_;
  Rank rank_;
  Device& device_;
  DeviceCollective* collective_;
};

}  // namespace quire
