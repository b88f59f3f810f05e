#pragma once

#include <vector>

#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/scheduler_limits.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Divides the decodes among steps if the workers form a pipeline (SchedulerLimits::num_stages). The first stage cannot
/// compute a sequence again before the last stage has sampled the sequence's token. So successive steps compute
/// different sequences: with S stages, each step has 1 / S of the decodes. Beams and chunks are not divided: the beams
/// of a request continue only when tokens have been sampled for all of them, and chunks sample no tokens.
class StageTurns {
 public:
  StageTurns(const SchedulerLimits& limits, const RunningSet& running) : limits_(limits), running_(running) {}

  /// Marks the running sequences that decode and must skip the step being planned (Sequence::sits_out), and clears the
  /// mark of all other sequences. The sequences that waited longest come first. A sequence for which an outstanding
  /// step samples a token is computed only if outstanding steps sample tokens for all sequences that decode, and only
  /// if no second token of the sequence is outstanding. If no step is outstanding, the most senior decode is in the
  /// step, together with at least one decode whose turn it is, because only the most senior request is sure to find
  /// blocks. `together`: no step can be planned ahead, so the step has all decodes.
  void TakeTurns(bool together, StepDraft& draft);

 private:
  const SchedulerLimits& limits_;
  const RunningSet& running_;
  std::vector<Sequence*> ready_, drawing_;  // decodes without and with pending tokens; their memory is used again
};

}  // namespace quire
