#pragma once

#include <span>

#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Divides a step's tokens between clients, and between the decodes and chunks of one client.
class StepShares {
 public:
  StepShares(WaitingQueue& queue, const RunningSet& running) : queue_(queue), running_(running) {}

  /// Splits the step evenly between the clients with work. Tokens that a client does not need go to the others. `most`:
  /// the wanted number of tokens of the step. Returns the step's number of tokens. This number exceeds `most` if the
  /// beams and one token for each client need more, but it is at most draft.budget.
  int ShareStep(int most, StepDraft& draft);
  /// Returns the number of the request's sequences that decode in the step being planned, if there are blocks for them.
  static int DecodesOf(const Request& request, const StepDraft& draft);
  /// Returns the tokens that the request may compute in the step being planned. `later_decodes` tokens are left for
  /// requests that are served later.
  Allowance AllowanceOf(const Request& request, int later_decodes, const StepDraft& draft) const;
  /// Charges the work's chunk tokens to the client's part of the step.
  static void ChargeStep(const Request& request, std::span<const GrowTarget> work);

 private:
  int BeamsTakeTurns(int tokens);
  static void CountDemand(Request& request);
  void SplitStep(int tokens, StepDraft& draft);
  void TakeTurns(const ClientAccount& account, int decodes);

  WaitingQueue& queue_;
  const RunningSet& running_;
};

}  // namespace quire
