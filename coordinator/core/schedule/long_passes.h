#pragma once

#include <cstdint>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/learned_cost.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/scheduler_limits.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Serves models that read prompts as a whole. Decides which prompts one step computes, and which prompts are computed
/// in slices over several steps (Slice). All slices of a prompt together are its pass. Serves the passes that have
/// begun, least recently served first, beside waiting requests. A client has at most one pass at a time; shorter
/// prompts of the client go before the client's next pass.
class LongPasses {
 public:
  LongPasses(const SchedulerLimits& limits, const BlockManager& blocks, const WaitingQueue& queue,
             const RunningSet& running, const LearnedCost& cost)
      : limits_(limits), blocks_(blocks), queue_(queue), running_(running), cost_(cost) {}

  enum class Fit {
    kFits,      // the request may be admitted: its prompt fits what is left of the step, or its pass may begin
    kNextStep,  // a later step may have room for the whole prompt; this step has admitted others
    kWaits      // its pass must wait for other passes to end
  };
  Fit FitOf(const Request& request, const StepDraft& draft) const;
  /// Lets the client's first waiting request that fits whole into what is left of the step go before the client's next
  /// request. Returns false if no request fits.
  static bool LetOvertake(ClientAccount& client, const StepDraft& draft);

  /// Divides the step between passes and waiting requests (StepDraft::pass_tokens), and orders the running requests.
  void Share(StepDraft& draft) const;
  /// Returns the tokens that one running request may compute.
  Allowance AllowanceOf(const StepDraft& draft) const;
  /// Returns the tokens that a request may compute in the step that admits it. A pass that begins leaves an even part
  /// of the step to every other client that waits for one.
  int TokensAtAdmission(const Request& request, const StepDraft& draft) const;
  /// Returns the next slice of the request's pass, which takes about `tokens` tokens of the step's budget; nothing to
  /// compute if the pass may not begin or is planned to its end, or if only its last unit is left and the step can
  /// complete no further prompt.
  GrowTarget NextSlice(Request& request, int tokens, const StepDraft& draft) const;

  /// Returns the number of rows for which the workers store activations after all planned steps.
  int64_t KeptRows() const;

 private:
  /// True when the request's pass may begin; false while another request of the client has a pass. Beside passes of
  /// other clients, a pass begins only if the workers have room for the activations of its rows, too, and if the passes
  /// leave half of the sequence slots and a quarter of the blocks to prompts that one step computes.
  bool MayBegin(const Request& request) const;
  bool MayTakePart(const ClientAccount& client, const StepDraft& draft) const;
  int64_t NumTakingPart(const StepDraft& draft) const;
  static int LeastTokens(const StepDraft& draft);
  double CostOfToken(int prompt_tokens) const;

  const SchedulerLimits& limits_;
  const BlockManager& blocks_;
  const WaitingQueue& queue_;
  const RunningSet& running_;
  const LearnedCost& cost_;
};

}  // namespace quire
