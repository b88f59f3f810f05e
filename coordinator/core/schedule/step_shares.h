#pragma once

#include <span>

#include "coordinator/core/schedule/learned_cost.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/step_draft.h"
#include "coordinator/core/schedule/step_length.h"

namespace quire {

/// Divides a step's tokens between clients, and between the decodes and chunks of one client.
class StepShares {
 public:
  StepShares(WaitingQueue& queue, const RunningSet& running, const LearnedCost& cost)
      : queue_(queue), running_(running), cost_(cost) {}

  /// Splits the step's work evenly between the clients. Work that a client does not need goes to the others. `most`:
  /// the wanted size of the step. Sets the draft's budget and work. They exceed `most` if the beams and one token for
  /// each client need more; the budget never grows.
  void ShareStep(const StepBudget& most, StepDraft& draft);
  /// Lets the decodes of the only active client take turns if their contexts make their work exceed `most`. Decodes
  /// with short contexts never take turns here, however many they are. Returns the work of the decodes that remain in
  /// the step, beams included.
  int64_t LimitDecodes(int64_t most, StepDraft& draft);
  /// Returns the number of the request's sequences that decode in the step being planned, if there are blocks for them.
  static int DecodesOf(const Request& request, const StepDraft& draft);
  /// Returns the tokens that the request may compute in the step being planned. `later_decodes` tokens are left for
  /// requests that are served later.
  Allowance AllowanceOf(const Request& request, int later_decodes, const StepDraft& draft) const;
  /// Charges the work to the step, and the work of chunks to the client's part of the step.
  static void ChargeStep(const Request& request, std::span<const GrowTarget> work, const LearnedCost& cost,
                         StepDraft& draft);

 private:
  int64_t WorkOfBeams(const Request& request) const;
  int64_t NumBeams() const;
  int64_t BeamsTakeTurns(int64_t work);
  void CountDemand(Request& request);
  void SplitStep(int64_t work, StepDraft& draft);
  void TakeTurns(const ClientAccount& account, int64_t work);

  WaitingQueue& queue_;
  const RunningSet& running_;
  const LearnedCost& cost_;
};

}  // namespace quire
