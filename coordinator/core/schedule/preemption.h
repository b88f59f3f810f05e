#pragma once

#include <span>

#include "coordinator/core/schedule/decision_teller.h"
#include "coordinator/core/schedule/learned_cost.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/scheduler_limits.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

/// Takes running requests with all their sequences out of the running set and puts them back into the queue. Their
/// blocks are swapped to the host or computed again later; with PreemptionMode::kAuto, whichever is cheaper. No step
/// may be outstanding.
class Preemption {
 public:
  Preemption(const SchedulerLimits& limits, BlockManager& blocks, WaitingQueue& queue, RunningSet& running,
             const LearnedCost& cost, DecisionTeller& decisions)
      : limits_(limits), blocks_(blocks), queue_(queue), running_(running), cost_(cost), decisions_(decisions) {}

  /// Preempts requests until the blocks for `work` are free, beginning with the last in draft.order. If the request
  /// runs alone, ends all pins instead. Returns false when the request itself was preempted, as the last in the order.
  /// Also returns false when the request must wait for outstanding steps or for blocks that are being copied.
  bool MakeRoomFor(Request& request, std::span<const GrowTarget> work, StepDraft& draft);
  /// Preempts the victim so that `cause` can run.
  void Preempt(Request& victim, const Request& cause, StepDraft& draft);

  int64_t num_preemptions() const { return num_preemptions_; }
  int64_t num_swapped_out() const { return num_swapped_out_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(num_preemptions_, num_swapped_out_);
  }

 private:
  bool SwapIsBetter(int blocks, const StepDraft& draft) const;

  const SchedulerLimits& limits_;
  BlockManager& blocks_;
  WaitingQueue& queue_;
  RunningSet& running_;
  const LearnedCost& cost_;
  DecisionTeller& decisions_;
  int64_t num_preemptions_ = 0, num_swapped_out_ = 0;
};

}  // namespace quire
