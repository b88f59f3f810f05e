#pragma once

#include <span>
#include <vector>

#include "coordinator/core/schedule/decision_teller.h"
#include "coordinator/core/schedule/learned_cost.h"
#include "coordinator/core/schedule/long_passes.h"
#include "coordinator/core/schedule/scheduler_limits.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Chooses the tokens of a request that the step being planned computes.
class RequestWork {
 public:
  RequestWork(const SchedulerLimits& limits, BlockManager& blocks, const OutstandingSteps& steps,
              const LearnedCost& cost, const LongPasses& passes, DecisionTeller& decisions)
      : limits_(limits), blocks_(blocks), steps_(steps), cost_(cost), passes_(passes), decisions_(decisions) {}

  /// Returns a target for each sequence of the request that has work: the number of leading tokens that are computed
  /// after the step. The allowance bounds the tokens that the step computes. Returns an empty span when the request
  /// must wait for other requests or for results. The span points into the draft and is valid until the next call.
  std::span<GrowTarget> FindWork(Request& request, Allowance allowance, StepDraft& draft);

 private:
  bool ShareLeadersPrefix(Request& request, const Allowance& allowance, StepDraft& draft);
  int ChunkWithin(const Allowance& allowance, int start) const;
  void Attach(Request& request, Sequence& sequence, int max_tokens);
  int BlocksFromHost(const Request& request, Sequence& sequence, int max_tokens);
  static void DrawTogether(const Request& request, std::vector<GrowTarget>& work);
  bool WaitsForPrefix(Request& request, Sequence& sequence, int start);
  int TokensFor(const Request& request, const Sequence& sequence, int start, int count, int budget) const;

  const SchedulerLimits& limits_;
  BlockManager& blocks_;
  const OutstandingSteps& steps_;
  const LearnedCost& cost_;
  const LongPasses& passes_;
  DecisionTeller& decisions_;
};

}  // namespace quire
