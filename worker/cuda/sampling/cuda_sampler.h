#pragma once

#include <vector>

#include "comm/collective/device_collective.h"
#include "kernels/cuda/elementwise/step_state.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/device/pieces.h"
#include "worker/cuda/sampling/draw_plan.h"
#include "worker/cuda/step/step_arrays.h"
#include "worker/engine/sequence_table.h"
#include "worker/model/shard.h"

namespace quire {

struct CudaSamplerSizes {
  std::vector<RankShard> shards;
  Rank rank;
  int64_t max_rows;     // most rows with a sampled token in one step
  int64_t max_running;  // number of slots
  int64_t max_model_len;
  int64_t row_stride;  // floats per row of logits; equal on all ranks, at least any shard
};

/// Samples tokens on the device from logits that are sharded by vocabulary, with the meaning of kernels/sampling.h. All
/// ranks sample the same tokens.
class CudaSampler {
 public:
  /// Makes the sampler. `collective` must outlive it; null: the group has one rank.
  CudaSampler(const CudaSamplerSizes& sizes, Device& device, DeviceCollective* collective);

  /// Writes the sampling settings of the members for which a token is sampled into a step's arrays. Rows after the last
  /// such member, up to num_rows, are padding.
  DrawPlan Prepare(const std::vector<BatchMember>& batch, const SequenceTable& table, int64_t num_rows,
                   StepArrays& arrays);

  /// Queues the sampling from logits [num_rows, row_stride]. The tokens are also written to last_tokens().
  void Draw(int64_t num_rows, int num_candidates, const StepArrays& arrays, const float* logits);
  /// Queues the copy of the sampled tokens to the host. There are two sets of results, so that the host can read one
  /// while the device writes the other.
  void CopyResults(int64_t num_rows, int set);
  /// For the rows that only the host can sample, computes which tokens the grammars allow, while the device computes
  /// the step. Call before Collect.
  void AskGrammars(const SequenceTable& table, DrawPlan& plan) const;
  /// Returns the tokens once CopyResults has run. For some rows, all ranks together sample the token from `logits`: for
  /// those that only the host can sample, and for those that the shards' candidates do not decide.
  std::vector<SampledToken> Collect(const DrawPlan& plan, int set, const SequenceTable& table, const float* logits);

  const int32_t* last_tokens() const { return memory_.last_tokens; }  // [max_running] on the device

 private:
  struct Memory {
    Memory(const CudaSamplerSizes& sizes, Pieces pieces);
    kernels::DrawnToken* drawn;  // [max_rows]
    kernels::ShardDraw* draws;   // [max_rows]
    std::byte *part, *parts;     // this rank's candidates (ShardPartBytes); all ranks' candidates
    kernels::ShardToken *shard_token, *shard_tokens;
    std::byte* workspace;
    int32_t* last_tokens;                // [max_running]
    uint16_t* counts;                    // [max_running, count_stride]
    int32_t* counted_tokens;             // [max_model_len]
    kernels::CountedSequence* to_count;  // [1]
    float* whole_row;                    // [ranks, row_stride]
    int64_t bytes;
  };
  struct Results {
    kernels::DrawnToken* drawn;
    kernels::ShardDraw* draws;
  };

  bool single() const { return collective_ == nullptr; }
  const RankShard& shard() const { return sizes_.shards[static_cast<size_t>(sizes_.rank)]; }
  kernels::SamplingRows Rows(int64_t num_rows, const StepArrays& arrays, const float* logits) const;
  kernels::CountTable Counts() const;
  void CountTokens(SlotId slot, const SequenceState& sequence);
  SampledToken DrawOnHost(const BatchMember& member, const SequenceTable& table, const float* row,
                          const HostMask& mask);

  CudaSamplerSizes sizes_;
  Device& device_;
  DeviceCollective* collective_;
  DeviceMemory reserved_, host_reserved_;
  Memory memory_;
  Results results_[2];
  int32_t* host_tokens_;  // [max_model_len]; page-locked, like the next two members
  kernels::CountedSequence* host_to_count_;
  float* host_row_;                // [ranks, row_stride]
  std::vector<uint64_t> counted_;  // keyed by slot: serial of the sequence whose tokens are counted; 0: none
};

}  // namespace quire
