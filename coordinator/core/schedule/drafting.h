#pragma once

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/draft_cost.h"
#include "coordinator/core/schedule/draft_proposer.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Adds drafts to steps: guesses of further tokens for sequences that decode (speculative decoding). Without a proposer
/// no step has drafts.
class Drafting {
 public:
  explicit Drafting(BlockManager& blocks) : blocks_(blocks) {}

  /// The proposer must outlive this object.
  void SetProposer(DraftProposer* proposer, const DraftOptions& options) {
    proposer_ = proposer;
    drafts_ = options;
  }
  /// True when the next step must not be planned before `outstanding` has its result.
  bool WaitsForDrafts(const OutstandingStep& outstanding) const;
  /// Adds drafts to the decodes of the step being planned, as far as the step's remaining budget and the free blocks
  /// allow.
  void AddDrafts(StepDraft& draft);
  /// Learns the cost of drafts from a step that took `seconds`; the time for moving blocks does not count.
  void Observe(const OutstandingStep& step, double seconds);

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(cost_);
  }

 private:
  bool MayHaveDrafts(const Request& request) const;

  BlockManager& blocks_;
  DraftProposer* proposer_ = nullptr;  // null: no speculation
  DraftOptions drafts_;
  DraftCost cost_;
};

}  // namespace quire
