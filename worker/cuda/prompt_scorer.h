#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/collective/device_collective.h"
#include "worker/cuda/cuda_sampler.h"
#include "worker/cuda/device.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// A member of a step that scores rows of its prompt, and the step's row of its first token.
struct ScoringMember {
  BatchMember member;
  int64_t row;
};
std::vector<ScoringMember> ScoringMembers(const std::vector<BatchMember>& batch);

/// Scores prompts from logits on the device, a few rows at a time: they go to the host, and rank 0 does there what the
/// CPU engine does.
class PromptScorer {
 public:
  /// `collective` outlives it, and is null for a group of one.
  PromptScorer(const CudaSamplerSizes& sizes, Device& device, DeviceCollective* collective);

  /// Queues the product of `count` rows of the step from `row` on with the output head; returns where the logits are
  /// going to be: [count, row_stride].
  using LogitsOfRows = std::function<const float*(int64_t row, int64_t count)>;
  /// The scores of a step that has run and that nothing was queued after. Empty on other ranks than 0, which make the
  /// same calls.
  std::vector<PromptScores> Score(const std::vector<ScoringMember>& members, const SequenceTable& table,
                                  const LogitsOfRows& logits_of);

 private:
  /// Fetches logits [count, row_stride] of all ranks to the host, on rank 0.
  void Fetch(const float* logits, int64_t count);
  /// Row `i` of the `count` that were fetched, its shards put together.
  std::vector<float> Row(int64_t i, int64_t count) const;

  CudaSamplerSizes sizes_;
  Device& device_;
  DeviceCollective* collective_;
  int64_t rows_at_once_;
  DeviceMemory parts_, host_parts_;  // [ranks, rows, row_stride]; the first only where there are several ranks
};

}  // namespace quire
