// How requests and sequences leave the running set, and what they give back.
#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/core/schedule/scheduler.h"

namespace quire {

bool Scheduler::SwapIsBetter(int blocks) const {
  if (limits_.preemption == PreemptionMode::kRecompute) return false;
  // While blocks are on their way to or from other workers, a plan may stay without work, and is then not sent. What it
  // moves to the host would be lost.
  if (steps_.at(steps_.size()).members.empty() && !blocks_.device_holdings().empty()) return false;
  if (blocks == 0 || blocks > blocks_.host_pool().num_free()) return false;
  if (limits_.preemption == PreemptionMode::kSwap) return true;
  // Shared blocks count once, because their tokens are computed once.
  return cost_.SwapSeconds(blocks) < cost_.RecomputeSeconds(int64_t{blocks} * blocks_.block_size());
}

void Scheduler::Preempt(Request& victim, const Request& cause) {
  QUIRE_CHECK(!ahead(), "request {} may be in flight", victim.id);
  // Gives up the blocks outside the window first. All swapped-out blocks must come back: a block given up right after
  // the swap-in could be written twice in one step.
  for (Sequence& sequence : victim.sequences) blocks_.LeaveWindow(sequence);
  const int blocks = DistinctBlocks(victim.sequences);
  for (auto it = victim.sequences.rbegin(); it != victim.sequences.rend(); ++it) LeaveWorkers(*it);
  if (!victim.PoolsAllRows() && SwapIsBetter(blocks)) {
    blocks_.swap().Out(victim.sequences, plan_);
    victim.num_swapped_blocks = blocks;
    ++num_swapped_out_;
    Tell(DecisionKind::kPreemptedSwap, victim, blocks, blocks_.host_pool().num_free(), cause.id);
  } else {
    for (auto it = victim.sequences.rbegin(); it != victim.sequences.rend(); ++it) blocks_.Free(*it);
    victim.forked = false;
    Tell(DecisionKind::kPreemptedRecompute, victim, int64_t{blocks} * blocks_.block_size(), blocks, cause.id);
  }
  ++victim.num_preemptions;
  ++num_preemptions_;
  std::erase(running_, &victim);
  queue_.AddPreempted(victim);
}

void Scheduler::LeaveWorkers(Sequence& sequence) {
  sequence.told_first_block = 0;
  if (!sequence.slot) return;
  std::erase_if(branches_, [&](const quire::Branch& branch) { return branch.slot == *sequence.slot; });
  std::erase_if(plan_.tables, [&](const TableEdit& edit) { return edit.slot == *sequence.slot; });
  released_.push_back(*sequence.slot);
  free_slots_.push_back(*sequence.slot);
  sequence.slot.reset();
}

void Scheduler::Detach(Sequence& sequence) {
  steps_.Forget(sequence);
  blocks_.Free(sequence);
  LeaveWorkers(sequence);
}

void Scheduler::Finish(Request& request, Sequence& sequence, FinishReason reason) {
  QUIRE_CHECK(!sequence.finished, "sequence {} ends twice", sequence.id);
  sequence.finished = reason;
  if (blocks_.has_states()) blocks_.states().KeepLast(sequence);
  Detach(sequence);
  Tell(DecisionKind::kFinished, request, sequence.choice, static_cast<int64_t>(reason));
  if (!request.finished()) return;
  std::erase(running_, &request);
  queue_.Left(request);
}

void Scheduler::Drop(Request& request) {
  for (Sequence& sequence : request.sequences) Detach(sequence);
  std::erase(running_, &request);
  queue_.Remove(request);
  queue_.Left(request);
}

void Scheduler::Reset() {
  steps_.Lose();
  left_out_ = false;
  plan_.Clear();
  blocks_.pins().Break();
  blocks_.host_holdings().ReleaseAll();
  blocks_.device_holdings().ReleaseAll();
  for (Request* request : queue_.All()) {  // swapped-out blocks are lost with the workers' memory
    for (Sequence& sequence : request->sequences) blocks_.Free(sequence);
    request->num_swapped_blocks = 0;
    request->forked = false;
  }
  while (!running_.empty()) {
    Request& request = *running_.back();
    for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) Detach(*it);
    request.forked = false;
    ++request.num_preemptions;
    running_.pop_back();
    queue_.AddPreempted(request);
  }
  blocks_.prefixes().Flush();
  released_.clear();
  branches_.clear();
}

}  // namespace quire
