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
    std::span<const SampledToken> tokens;  // at least one; more where drafts were accepted
    int num_drafts;
    DraftSource source;
  };

  /// True when `tokens` are those that the oldest outstanding step must sample, in batch order.
  bool Fits(const std::vector<SampledToken>& tokens) const;
  /// True when `scores` match the prompt tokens that the oldest outstanding step scores.
  bool Fits(const std::vector<PromptScores>& scores) const;
  /// True when the oldest outstanding step orders each of `guesses`, the drafts of the draft model, in the same order,
  /// and none is empty or too long.
  bool Fits(const std::vector<Draft>& guesses) const;
  /// Returns the request that the oldest outstanding step computes in this slot; nothing if the request has ended.
  std::optional<RequestId> RequestOf(SlotId slot) const;
  /// Commits the oldest outstanding step, as Scheduler::Commit describes.
  std::span<const Drawn> Commit(const std::vector<SampledToken>& tokens, const std::vector<Draft>& guesses);
  /// Makes each sequence of the request the beam that `steps` chose for it. Call it when the step just committed has
  /// sampled for every beam of the request.
  void Branch(Request& request, std::span<const BeamSearch::Step> steps);

 private:
  void KeepGuesses(const std::vector<Draft>& guesses);

  BlockManager& blocks_;
  RunningSet& running_;
  OutstandingSteps& steps_;
  std::vector<Drawn> drawn_;  // a member so that its memory is used again
};

}  // namespace quire
