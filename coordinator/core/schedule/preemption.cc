#include "coordinator/core/schedule/preemption.h"

#include "comm/base/error.h"

namespace quire {

bool Preemption::MakeRoomFor(Request& request, std::span<const GrowTarget> work, StepDraft& draft) {
  while (blocks_.BlocksToGrow(work) > blocks_.num_free()) {
    if (draft.ahead) {
      draft.left_out = true;
      return false;
    }
    if (running_.size() == 1) {
      if (blocks_.pins().Break()) {
        decisions_.Tell(DecisionKind::kPinsBroken, request, 0, 0);
        continue;
      }
      const bool others_come_or_go = !blocks_.device_holdings().empty();
      QUIRE_CHECK(others_come_or_go, "request {} does not fit the pool alone", request.id);
      return false;
    }
    Request& victim = *draft.order.back();
    draft.order.pop_back();
    draft.preempted = true;
    Preempt(victim, request, draft);
    if (&victim == &request) return false;
  }
  return true;
}

bool Preemption::SwapIsBetter(int blocks, const StepDraft& draft) const {
  if (limits_.preemption == PreemptionMode::kRecompute) return false;
  // While blocks are copied to or from other workers, a plan may end up without work, and is then not sent. Blocks that
  // this plan moves to the host would be lost.
  if (draft.step->members.empty() && !blocks_.device_holdings().empty()) return false;
  if (blocks == 0 || blocks > blocks_.host_pool().num_free()) return false;
  if (limits_.preemption == PreemptionMode::kSwap) return true;
  // Shared blocks count once, because their tokens are computed once.
  return cost_.SwapSeconds(blocks) < cost_.RecomputeSeconds(int64_t{blocks} * blocks_.block_size());
}

void Preemption::Preempt(Request& victim, const Request& cause, StepDraft& draft) {
  QUIRE_CHECK(!draft.ahead, "request {} may be in flight", victim.id);
  // Gives back the blocks outside the window first. Otherwise they would be swapped in with the others and then be
  // given back, and one step could write such a block twice.
  for (Sequence& sequence : victim.sequences) blocks_.LeaveWindow(sequence);
  const int blocks = DistinctBlocks(victim.sequences);
  for (auto it = victim.sequences.rbegin(); it != victim.sequences.rend(); ++it) running_.LeaveWorkers(*it);
  if (!victim.PoolsAllRows() && !victim.InPass() && SwapIsBetter(blocks, draft)) {
    blocks_.swap().Out(victim.sequences, draft.plan);
    victim.num_swapped_blocks = blocks;
    ++num_swapped_out_;
    decisions_.Tell(DecisionKind::kPreemptedSwap, victim, blocks, blocks_.host_pool().num_free(), cause.id);
  } else {
    for (auto it = victim.sequences.rbegin(); it != victim.sequences.rend(); ++it) blocks_.Free(*it);
    victim.forked = false;
    decisions_.Tell(DecisionKind::kPreemptedRecompute, victim, int64_t{blocks} * blocks_.block_size(), blocks,
                    cause.id);
  }
  ++victim.num_preemptions;
  ++num_preemptions_;
  running_.Remove(victim);
  queue_.AddPreempted(victim);
}

}  // namespace quire
