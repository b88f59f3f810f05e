#pragma once

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/draft_cost.h"
#include "coordinator/core/schedule/draft_proposer.h"
#include "coordinator/core/schedule/scheduler_limits.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Adds draft tokens to steps for sequences that decode (speculative decoding). Without a proposer no step has drafts.
class Drafting {
 public:
  Drafting(const SchedulerLimits& limits, BlockManager& blocks) : limits_(limits), blocks_(blocks) {}

  /// The proposer must outlive this object.
  void SetProposer(DraftProposer* proposer, const DraftOptions& options) {
    proposer_ = proposer;
    drafts_ = options;
  }
  /// True when one of these running requests may get drafts, so that each step must wait for the previous step's
  /// result.
  bool HoldsUp(const std::vector<Request*>& running) const;
  /// True when the next step must not be planned before the outstanding steps have their results.
  bool WaitsForDrafts(const OutstandingSteps& outstanding) const;
  /// Gives the decodes of the step being planned their drafts, as far as the step's budget and the pool allow; a step
  /// planned ahead gets none. Also orders drafts for the following step from the draft model.
  void AddDrafts(StepDraft& draft);
  /// Learns the cost of drafts from a step that took `seconds`, without the time for moving blocks. Ignores a step that
  /// computed more than one known token of a sequence.
  void Observe(const OutstandingStep& step, double seconds);
  /// Learns that the draft model took `seconds` after the step to make `tokens` draft tokens.
  void ObserveGuesses(const OutstandingStep& step, int tokens, double seconds);

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(cost_);
  }

 private:
  bool WaitsForDrafts(const OutstandingStep& outstanding) const;
  bool MayHaveDrafts(const Request& request) const;
  /// True when the request gets drafts only while they save time; false for a request with a prediction, because its
  /// client asked for drafts.
  bool MustPay(const Request& request) const { return drafts_.must_pay && request.prediction.empty(); }
  bool IsReady(const Request& request, const Sequence& sequence, size_t num_sequences) const;
  double RowCost(size_t num_sequences) const { return cost_.row(static_cast<int>(num_sequences)); }
  double WaitCost() const;
  /// True when the request's drafts come from the draft model or the prediction layer; false for a request with a
  /// prediction, because a prediction is a better source of drafts than a small model.
  bool AsksModel(const Request& request) const { return drafts_.from_model && request.prediction.empty(); }
  void AddDrafts(StepMember& member, StepDraft& draft);
  bool Guess(StepMember& member, int longest, double row_cost);
  void OrderGuess(StepMember& member, double row_cost);

  const SchedulerLimits& limits_;
  BlockManager& blocks_;
  DraftProposer* proposer_ = nullptr;  // null: no speculation
  DraftOptions drafts_;
  DraftCost cost_;
};

}  // namespace quire
