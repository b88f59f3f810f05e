#pragma once

#include <span>

#include "coordinator/core/schedule/decision_teller.h"
#include "coordinator/core/schedule/learned_cost.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Writes the step: puts requests' work into the plan for the workers and into the record of outstanding steps, and
/// takes the blocks and slots that the work needs.
class StepWriter {
 public:
  StepWriter(BlockManager& blocks, RunningSet& running, const LearnedCost& cost, DecisionTeller& decisions)
      : blocks_(blocks), running_(running), cost_(cost), decisions_(decisions) {}

  /// Puts the work of one request into the step. The pool must have the blocks that the work needs. Host copies that
  /// the work uses are copied back in this step. If a copy is gone, the step computes the same number of tokens, but
  /// from an earlier position on.
  void Emit(Request& request, std::span<GrowTarget> work, StepDraft& draft);
  /// Orders the step's members as a batch and writes them into the plan: decodes come first, then decodes with drafts,
  /// then chunks, then slices, each by slot.
  static void OrderBatch(StepDraft& draft);
  /// Returns an upper bound of the bytes that the plan needs to send the whole sequence to a worker.
  static int64_t BytesToAdd(const Request& request, const Sequence& sequence);
  /// Counts `tokens` prompt tokens as cached and does not charge the client for them. Does nothing after the request's
  /// first preemption.
  static void NoteCached(Request& request, int tokens);

 private:
  void EmitSlice(Request& request, Sequence& sequence, Slice slice, StepDraft& draft);
  void BringFromHost(Request& request, GrowTarget& target, StepDraft& draft);
  void AddToWorkers(const Request& request, Sequence& sequence, StepDraft& draft);
  void NotePrefixes(Sequence& sequence, int end, StepDraft& draft);

  BlockManager& blocks_;
  RunningSet& running_;
  const LearnedCost& cost_;
  DecisionTeller& decisions_;
};

}  // namespace quire
