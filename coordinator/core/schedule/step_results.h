#pragma once

#include <optional>
#include <span>
#include <vector>

#include "coordinator/core/beam_search.h"
#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/outstanding_steps.h"
#include "coordinator/core/schedule/running_set.h"

namespace quire {

/// Checks and commits the result of the oldest outstanding step.
class StepResults {
 public:
  StepResults(BlockManager& blocks, RunningSet& running, OutstandingSteps& steps)
      : blocks_(blocks), running_(running), steps_(steps) {}

  struct Drawn {
    Request* request;
    Sequence* sequence;
    std::span<const SampledToken> tokens;  // at least one; more only where drafts were right
    int num_drafts;
    DraftSource source;
  };

  /// True when `tokens` match the drawing members of the oldest outstanding step, in batch order.
  bool Fits(const std::vector<SampledToken>& tokens) const;
  /// The same check for the prompt scores.
  bool Fits(const std::vector<PromptScores>& scores) const;
  /// True when `guesses` are among those that the oldest outstanding step orders, in their order, and none is too long.
  bool Fits(const std::vector<Draft>& guesses) const;
  /// The request that the oldest outstanding step computes in this slot; nothing if the request has ended.
  std::optional<RequestId> RequestOf(SlotId slot) const;
  /// See Scheduler::Commit.
  std::span<const Drawn> Commit(const std::vector<SampledToken>& tokens, const std::vector<Draft>& guesses);
  /// Continues the beams of a request as `steps` chose; every beam has just drawn.
  void Branch(Request& request, std::span<const BeamSearch::Step> steps);

 private:
  void KeepGuesses(const std::vector<Draft>& guesses);

  BlockManager& blocks_;
  RunningSet& running_;
  OutstandingSteps& steps_;
  std::vector<Drawn> drawn_;  // kept to reuse its memory
};

}  // namespace quire
