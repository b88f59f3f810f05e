#include "coordinator/core/scheduler.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

Scheduler::Scheduler(SchedulerLimits limits, BlockManager& blocks) : limits_(limits), blocks_(blocks) {
  QUIRE_CHECK(limits.max_step_tokens >= limits.max_running && limits.max_running >= 1, "{} tokens for {} sequences",
              limits.max_step_tokens, limits.max_running);
  for (int slot = limits.max_running - 1; slot >= 0; --slot) free_slots_.push_back(static_cast<SlotId>(slot));
}

void Scheduler::Tell(DecisionKind kind, const Request& request, int64_t a, int64_t b, RequestId cause) {
  if (log_ == nullptr) return;
  const Decision decision{kind, request.id, cause, a, b};
  if (kind == DecisionKind::kHeldForSlots || kind == DecisionKind::kHeldForBlocks) {
    if (last_held_.kind == kind && last_held_.request == request.id) return;
    last_held_ = decision;
  }
  log_->OnDecision(decision);
}

void Scheduler::Add(Request& request) {
  queue_.Add(request);
  for (Sequence& sequence : request.sequences) {
    sequence.contents.root = blocks_.prefixes().Root(request.cache_salt);
    sequence.contents.Restart();
  }
  Tell(DecisionKind::kQueued, request, request.num_prompt_tokens(), queue_.size() - 1);
}

int64_t Scheduler::BlocksAtLongest(int num_prompt_tokens, int max_tokens, int n) const {
  // The last token drawn is never computed.
  int64_t longest = int64_t{num_prompt_tokens} + max_tokens - 1;
  if (blocks_.sliding_window() > 0) {  // the window, a chunk, and the ends of both inside a block
    const int64_t seen = int64_t{blocks_.sliding_window()} + limits_.max_step_tokens + 2 * blocks_.block_size();
    longest = std::min(longest, seen);
  }
  return int64_t{n} * blocks_.BlocksFor(longest);
}

bool Scheduler::CanEverRun(int num_prompt_tokens, int max_tokens, int n) const {
  return n <= limits_.max_running && BlocksAtLongest(num_prompt_tokens, max_tokens, n) <= blocks_.num_usable();
}

StepPlan& Scheduler::Schedule() {
  QUIRE_CHECK(num_outstanding() < OutstandingSteps::kMost, "{} steps are outstanding", num_outstanding());
  plan_.Clear();
  if (ahead() && left_out_) return plan_;
  left_out_ = false;
  steps_.making().Clear();
  added_bytes_ = 0;
  in_company_ = queue_.num_active() > 1;
  int budget = in_company_ ? limits_.max_step_tokens : TokensAlone();
  use_counted_ = false;
  returning_.clear();
  if (!queue_.empty()) queue_.BeginPlan();
  if (in_company_ && !ShareOut(budget)) return plan_;
  const int64_t preemptions_before = num_preemptions_;
  ScheduleRunning(budget);
  if (num_preemptions_ == preemptions_before && !left_out_) AdmitWaiting(budget);
  OrderBatch();
  if (plan_.empty()) return plan_;
  plan_.released.swap(released_);
  plan_.branches.swap(branches_);
  steps_.making().num_moved_blocks = static_cast<int>(plan_.swap_outs.size() + plan_.swap_ins.size());
  ++num_steps_;
  steps_.Launch();
  return plan_;
}

void Scheduler::ScheduleRunning(int& budget) {
  OrderForService();
  for (size_t i = 0; i < order_.size() && budget > 0; ++i) {
    Request& request = *order_[i];
    FindWork(request, Allowance(request, budget));
    if (work_.empty()) continue;
    if (!MakeRoomFor(request)) return;
    Emit(request, budget);
  }
}

/// False when the request itself had to go, because it is the last in order, or must wait until nothing is outstanding.
bool Scheduler::MakeRoomFor(Request& request) {
  while (BlocksForWork() > blocks_.num_free()) {
    if (ahead()) {
      left_out_ = true;
      return false;
    }
    if (running_.size() == 1) {
      const bool broken = blocks_.pins().Break();
      QUIRE_CHECK(broken, "request {} does not fit the pool alone", request.id);
      Tell(DecisionKind::kPinsBroken, request, 0, 0);
      continue;
    }
    Request& victim = *order_.back();
    Preempt(victim, request);
    if (&victim == &request) return false;
  }
  return true;
}

bool Scheduler::SwapIsBetter(int blocks) const {
  if (limits_.preemption == PreemptionMode::kRecompute) return false;
  if (blocks == 0 || blocks > blocks_.host_pool().num_free()) return false;
  if (limits_.preemption == PreemptionMode::kSwap) return true;
  // Tokens in shared blocks are computed once.
  return cost_.SwapSeconds(blocks) < cost_.RecomputeSeconds(int64_t{blocks} * blocks_.block_size());
}

void Scheduler::Preempt(Request& victim, const Request& cause) {
  QUIRE_CHECK(!ahead(), "request {} may be in flight", victim.id);
  // What is swapped out must come back whole: a block given up on arrival could be written twice in one step.
  for (Sequence& sequence : victim.sequences) blocks_.LeaveWindow(sequence);
  const int blocks = DistinctBlocks(victim.sequences);
  for (auto it = victim.sequences.rbegin(); it != victim.sequences.rend(); ++it) LeaveWorkers(*it);
  if (SwapIsBetter(blocks)) {
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
  std::erase(order_, &victim);
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
  blocks_.holdings().ReleaseAll();
  for (Request* request : queue_.All()) {  // what was swapped out is lost with the workers' memory
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
