#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/collective/device_collective.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/sampling/cuda_sampler.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// A sequence of the batch with a request for prompt log-probabilities. `row`: its first row in this step.
struct ScoringMember {
  BatchMember member;
  int64_t row;
};
std::vector<ScoringMember> ScoringMembers(const std::vector<BatchMember>& batch);

/// Computes prompt log-probabilities from logits on the device. Copies a few rows at a time to the host, where rank 0
/// computes them as the CPU engine does.
class PromptScorer {
 public:
  /// `collective` must outlive the scorer; null: the group has one rank.
  PromptScorer(const CudaSamplerSizes& sizes, Device& device, DeviceCollective* collective);

  /// Queues the output head for the step's rows [row, row + count). Returns the device address where the logits [count,
  /// row_stride] will be.
  using LogitsOfRows = std::function<const float*(int64_t row, int64_t count)>;
  /// Computes the log-probabilities of the members' prompt rows. Returns them on rank 0, and an empty list on other
  /// ranks, which must make the same calls. Call it after the step has run, with nothing queued behind it.
  std::vector<PromptScores> Score(const std::vector<ScoringMember>& members, const SequenceTable& table,
                                  const LogitsOfRows& logits_of);

 private:
  /// Copies the logits [count, row_stride] of all ranks to rank 0's host memory.
  void Fetch(const float* logits, int64_t count);
  /// Returns row `i` of the `count` fetched rows, joined from its shards.
  std::vector<float> Row(int64_t i, int64_t count) const;

  CudaSamplerSizes sizes_;
  Device& device_;
  DeviceCollective* collective_;
  int64_t rows_at_once_;
  DeviceMemory parts_, host_parts_;  // [ranks, rows, row_stride]; parts_ exists only with several ranks
};

}  // namespace quire
