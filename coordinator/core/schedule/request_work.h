#pragma once

#include <span>
#include <vector>

#include "coordinator/core/schedule/decision_teller.h"
#include "coordinator/core/schedule/scheduler_limits.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Chooses the tokens that a request computes in the step being planned.
class RequestWork {
 public:
  RequestWork(const SchedulerLimits& limits, BlockManager& blocks, const OutstandingSteps& steps,
              DecisionTeller& decisions)
      : limits_(limits), blocks_(blocks), steps_(steps), decisions_(decisions) {}

  /// False when prompts are whole and the request's prompt is longer than the rest of the step. An empty step becomes
  /// as long as the prompt, so that every prompt is computed at its turn.
  bool FitsStep(const Request& request, StepDraft& draft) const;
  /// Returns how far the step takes the request's sequences within the allowance. Empty when the request must wait for
  /// other requests or for results. Points into the draft; valid until the next call.
  std::span<const GrowTarget> FindWork(Request& request, Allowance allowance, StepDraft& draft);

 private:
  bool ShareLeadersPrefix(Request& request, int budget, StepDraft& draft);
  void Attach(Request& request, Sequence& sequence, int max_tokens);
  static void DrawTogether(const Request& request, std::vector<GrowTarget>& work);
  bool WaitsForPrefix(Request& request, Sequence& sequence);
  int TokensFor(const Request& request, const Sequence& sequence, int count, int budget) const;

  const SchedulerLimits& limits_;
  BlockManager& blocks_;
  const OutstandingSteps& steps_;
  DecisionTeller& decisions_;
};

}  // namespace quire
