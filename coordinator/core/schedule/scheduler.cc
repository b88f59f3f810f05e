#include "coordinator/core/schedule/scheduler.h"

#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/core/schedule/integrity_check.h"

namespace quire {

Scheduler::Scheduler(SchedulerLimits limits, BlockManager& blocks)
    : limits_(limits), blocks_(blocks), running_(limits.max_running) {
  QUIRE_CHECK(limits.max_step_tokens >= limits.max_running && limits.max_running >= 1, "{} tokens for {} sequences",
              limits.max_step_tokens, limits.max_running);
}

void Scheduler::Add(Request& request) {
  queue_.Add(request);
  for (Sequence& sequence : request.sequences) {
    sequence.contents.adapter = request.adapter;
    sequence.contents.root = blocks_.prefixes().Root(request.cache_salt, sequence.contents.adapter);
    sequence.contents.Restart();
  }
  decisions_.Tell(DecisionKind::kQueued, request, request.num_prompt_tokens(), queue_.size() - 1);
}

bool Scheduler::CanEverRun(int num_prompt_tokens, int max_tokens, int n) const {
  return n <= limits_.max_running && BlocksAtLongest(num_prompt_tokens, max_tokens, n) <= blocks_.num_usable();
}

StepPlan& Scheduler::Schedule() {
  QUIRE_CHECK(num_outstanding() < steps_.most(), "{} steps are outstanding", num_outstanding());
  StepDraft& draft = draft_;
  draft.plan.Clear();
  blocks_.host_cache().BeginPlan();
  is_together_ = limits_.num_stages == 1 || drafting_.HoldsUp(running());
  if (!MustWait()) {
    BeginStep(draft);
    if (ShareOut(draft)) {
      ServeRunning(draft);
      if (!draft.preempted && !draft.left_out) admission_.AdmitWaiting(draft);
      drafting_.AddDrafts(draft);
      StepWriter::OrderBatch(draft);
    }
    left_out_ = draft.left_out;
    if (!draft.plan.empty()) Launch(draft);
  }
  if (blocks_.has_states()) blocks_.states().Settle();
  return draft.plan;
}

/// True when no step may be planned before the outstanding steps have their results: because the last step lacked room
/// for a request, a sequence may get drafts, or two steps with the same sequences are outstanding.
bool Scheduler::MustWait() const {
  return num_outstanding() > 0 &&
         (left_out_ || drafting_.WaitsForDrafts(steps_) || (is_together_ && num_outstanding() > 1));
}

void Scheduler::BeginStep(StepDraft& draft) {
  if (!queue_.empty()) queue_.BeginPlan();
  if (queue_.num_active() > 1) company_left_ = kCompanyKept;
  const bool in_company = company_left_ > 0;
  draft.Begin(num_steps_, steps_.making(), num_outstanding() > 0, in_company);
}

/// Sets the number of tokens of the step. While several clients are active, also gives every client its sequence slots,
/// blocks and part of the step. Returns false when the step must wait for results, because a request must be preempted
/// for another client first.
bool Scheduler::ShareOut(StepDraft& draft) {
  draft.SetBudget(draft.in_company ? limits_.max_step_tokens : length_.TokensAlone());
  if (!draft.in_company) {
    stage_turns_.TakeTurns(is_together_, draft);
    if (!limits_.whole_prompts()) {
      const int64_t work = length_.WorkAlone();
      draft.work_left = work + step_shares_.LimitDecodes(work, draft);
    }
    return true;
  }
  if (limits_.whole_prompts()) {
    // Most requests hold slots and blocks for one step only, so clients take turns instead of having shares.
    draft.SetBudget(length_.TokensInCompany());
    return true;
  }
  const bool may_give_way = queue_.num_active() > 1;
  if (may_give_way && !places_.SharePlaces(draft)) return false;
  stage_turns_.TakeTurns(is_together_, draft);
  step_shares_.ShareStep(length_.InCompany(), draft);
  return true;
}

/// Gives running requests their work in the order of service. Chunks get only tokens that no decode of the step needs,
/// whatever their position in the order. Blocks are given in the order of service alone.
void Scheduler::ServeRunning(StepDraft& draft) {
  if (blocks_.has_states()) draft.reserved_blocks = demand_.MostToGrow(running());
  shares_.OrderForService(draft);
  const bool in_slices = limits_.whole_prompts();
  if (in_slices) passes_.Share(draft);
  draft.decodes_before.assign(1, 0);
  for (const Request* request : draft.order)
    draft.decodes_before.push_back(draft.decodes_before.back() + StepShares::DecodesOf(*request, draft));
  for (size_t i = 0; i < draft.order.size() && draft.budget > 0; ++i) {
    Request& request = *draft.order[i];
    const int budget = draft.budget;
    if (in_slices && draft.pass_tokens <= 0) return;
    const Allowance allowance =
        in_slices ? passes_.AllowanceOf(draft) : step_shares_.AllowanceOf(request, draft.DecodesAfter(i), draft);
    const std::span<GrowTarget> work = work_.FindWork(request, allowance, draft);
    if (work.empty()) continue;
    if (!preemption_.MakeRoomFor(request, work, draft)) return;
    writer_.Emit(request, work, draft);
    draft.pass_tokens -= budget - draft.budget;
  }
}

/// Completes the plan and makes the step an outstanding step. Called when the plan has work and will be sent.
void Scheduler::Launch(StepDraft& draft) {
  running_.TellWorkers(draft.plan);
  CopyAhead(draft.plan);
  draft.step->num_moved_blocks = static_cast<int>(draft.plan.swap_outs.size() + draft.plan.swap_ins.size());
  ++num_steps_;
  steps_.Launch();
}

/// Copies cached blocks to the host in a small part of the step's time, if moving a block is quicker than computing its
/// tokens.
void Scheduler::CopyAhead(StepPlan& plan) {
  constexpr int kMostCopies = 64;
  HostCache& host = blocks_.host_cache();
  if (cost_.MovingIsQuicker(1, 0, blocks_.block_size()))
    host.CopyAhead(cost_.BlocksBeside(plan.num_tokens(), kMostCopies), plan);
  host.EndPlan();
}

void Scheduler::ObserveStep(double seconds, double swap_seconds) {
  const OutstandingStep& step = steps_.oldest();
  cost_.Observe(step.cost(), step.mean_context(), step.num_moved_blocks, seconds, swap_seconds);
  drafting_.Observe(step, seconds - swap_seconds);
  company_left_ = std::max(0.0, company_left_ - seconds);
}

void Scheduler::ObserveGuesses(int tokens, double seconds) {
  drafting_.ObserveGuesses(steps_.oldest(), tokens, seconds);
}

/// Takes the sequence out of steps and slots, and frees its blocks.
void Scheduler::Detach(Sequence& sequence) {
  steps_.Forget(sequence);
  blocks_.Free(sequence);
  running_.LeaveWorkers(sequence);
}

void Scheduler::Finish(Request& request, Sequence& sequence, FinishReason reason) {
  QUIRE_CHECK(!sequence.finished, "sequence {} ends twice", sequence.id);
  sequence.finished = reason;
  if (blocks_.has_states()) blocks_.states().KeepLast(sequence);
  Detach(sequence);
  decisions_.Tell(DecisionKind::kFinished, request, sequence.choice, static_cast<int64_t>(reason));
  if (!request.finished()) return;
  running_.Remove(request);
  queue_.Left(request);
}

void Scheduler::Drop(Request& request) {
  for (Sequence& sequence : request.sequences) Detach(sequence);
  running_.Remove(request);
  queue_.Remove(request);
  queue_.Left(request);
}

void Scheduler::Reset() {
  steps_.Lose();
  left_out_ = false;
  blocks_.pins().Break();
  blocks_.host_holdings().ReleaseAll();
  blocks_.device_holdings().ReleaseAll();
  for (Request* request : queue_.All()) {  // swapped-out blocks are lost with the workers' memory
    for (Sequence& sequence : request->sequences) blocks_.Free(sequence);
    request->num_swapped_blocks = 0;
    request->forked = false;
  }
  while (!running_.empty()) {
    Request& request = *running_.requests().back();
    for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) Detach(*it);
    request.forked = false;
    ++request.num_preemptions;
    running_.Remove(request);
    queue_.AddPreempted(request);
  }
  blocks_.prefixes().Flush();
  running_.ForgetWorkers();
}

void Scheduler::SetStages(int num_stages) {
  limits_.num_stages = num_stages;
  steps_.SetMost(limits_.most_outstanding());
}

void Scheduler::CheckIntegrity() const { CheckSchedule(limits_, blocks_, queue_, running_, steps_); }

}  // namespace quire
