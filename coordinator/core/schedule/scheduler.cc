#include "coordinator/core/schedule/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

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

int64_t Scheduler::BlocksAtLongest(int num_prompt_tokens, int max_tokens, int n) const {
  // The token drawn last is never computed.
  int64_t longest = int64_t{num_prompt_tokens} + max_tokens - 1;
  if (blocks_.sliding_window() > 0) {  // window and chunk, each with its ends inside a block
    const int64_t seen = int64_t{blocks_.sliding_window()} + limits_.max_step_tokens + 2 * blocks_.block_size();
    longest = std::min(longest, seen);
  }
  return int64_t{n} * (blocks_.BlocksFor(longest) + blocks_.states().num_blocks());
}

bool Scheduler::CanEverRun(int num_prompt_tokens, int max_tokens, int n) const {
  return n <= limits_.max_running && BlocksAtLongest(num_prompt_tokens, max_tokens, n) <= blocks_.num_usable();
}

StepPlan& Scheduler::Schedule() {
  MakeStep();
  if (blocks_.has_states()) blocks_.states().Settle();
  return plan_;
}

void Scheduler::MakeStep() {
  QUIRE_CHECK(num_outstanding() < OutstandingSteps::kMost, "{} steps are outstanding", num_outstanding());
  plan_.Clear();
  if (ahead() && (left_out_ || WaitsForDrafts())) return;
  left_out_ = false;
  steps_.making().Clear();
  use_counted_ = false;
  if (!queue_.empty()) queue_.BeginPlan();
  if (queue_.num_active() > 1) company_left_ = kCompanyKept;
  const bool in_company = company_left_ > 0;
  StepDraft& draft = draft_;
  draft.Begin(in_company, in_company ? limits_.max_step_tokens : TokensAlone());
  if (limits_.whole_prompts && in_company) {
    // A request has its places and blocks for one step only, so clients need no shares: they take turns.
    draft.SetBudget(TokensInCompany());
  } else if (in_company && !ShareOut(draft)) {
    return;
  }
  if (blocks_.has_states()) draft.reserved_blocks = MostToGrow();
  const int64_t preemptions_before = num_preemptions_;
  ScheduleRunning(draft);
  if (num_preemptions_ == preemptions_before && !left_out_) AdmitWaiting(draft);
  AddDrafts(draft);
  OrderBatch();
  if (plan_.empty()) return;
  plan_.released.swap(released_);
  plan_.branches.swap(branches_);
  steps_.making().num_moved_blocks = static_cast<int>(plan_.swap_outs.size() + plan_.swap_ins.size());
  ++num_steps_;
  steps_.Launch();
}

/// Gives running requests their work in the order of service. Whatever the order, chunks get only tokens that no decode
/// of the step needs. Blocks go by the order alone.
void Scheduler::ScheduleRunning(StepDraft& draft) {
  OrderForService(draft);
  draft.decodes_before.assign(1, 0);
  for (const Request* request : draft.order)
    draft.decodes_before.push_back(draft.decodes_before.back() + DecodesOf(*request, draft));
  for (size_t i = 0; i < draft.order.size() && draft.budget > 0; ++i) {
    Request& request = *draft.order[i];
    if (!FitsStep(request, draft)) continue;
    const std::span<const GrowTarget> work =
        FindWork(request, AllowanceOf(request, draft.DecodesAfter(i), draft), draft);
    if (work.empty()) continue;
    if (!MakeRoomFor(request, work, draft.order)) return;
    Emit(request, work, draft);
  }
}

/// Preempts requests from the end of the order of service until the work fits. False when the request itself was
/// preempted as the last in order, or when it must wait: for outstanding steps, or for blocks that are being copied.
bool Scheduler::MakeRoomFor(Request& request, std::span<const GrowTarget> work, std::vector<Request*>& order) {
  while (blocks_.BlocksToGrow(work) > blocks_.num_free()) {
    if (ahead()) {
      left_out_ = true;
      return false;
    }
    if (running_.size() == 1) {
      if (blocks_.pins().Break()) {
        Tell(DecisionKind::kPinsBroken, request, 0, 0);
        continue;
      }
      const bool others_come_or_go = !blocks_.device_holdings().empty();
      QUIRE_CHECK(others_come_or_go, "request {} does not fit the pool alone", request.id);
      return false;
    }
    Request& victim = *order.back();
    order.pop_back();
    Preempt(victim, request);
    if (&victim == &request) return false;
  }
  return true;
}

/// Puts the work into the plan.
void Scheduler::Emit(Request& request, std::span<const GrowTarget> work, StepDraft& draft) {
  if (draft.in_company) ChargeStep(request, work);
  for (const auto& [sequence, end] : work) {
    const int start = sequence->num_planned(), count = end - start;
    for (; sequence->slot && sequence->told_first_block < sequence->first_block; ++sequence->told_first_block) {
      plan_.tables.push_back({*sequence->slot, static_cast<uint32_t>(sequence->told_first_block), kNullBlock});
    }
    blocks_.Grow(*sequence, end, plan_, draft.reserved_blocks);
    if (!sequence->slot) AddToWorkers(request, *sequence, draft);
    NotePrefixes(*sequence, end);
    const bool draws = end == sequence->length();
    const ScoredRows scores = request.RowsOf(start, count);
    steps_.making().members.push_back({&request, sequence, *sequence->slot, start, count, draws, scores});
    sequence->last_step = num_steps_;
    plan_.position_sum += static_cast<uint64_t>(start);
    draft.budget -= request.StepCost(start, count);
  }
}

void Scheduler::AddToWorkers(const Request& request, Sequence& sequence, StepDraft& draft) {
  QUIRE_CHECK(!free_slots_.empty(), "no free slot");
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  sequence.told_first_block = sequence.first_block;
  draft.added_bytes += BytesToAdd(request, sequence);
  AddedSequence added{*sequence.slot,  sequence.num_prompt_tokens, sequence.num_computed, sequence.tokens,
                      sequence.blocks, request.sampling,           request.num_scored,    sequence.state};
  added.adapter = request.adapter;
  added.sampling.choice = static_cast<uint32_t>(sequence.choice);
  plan_.added.push_back(std::move(added));
}

void Scheduler::NotePrefixes(Sequence& sequence, int end) {
  const int size = blocks_.block_size();
  for (int index = sequence.num_planned() / size; index * size < end; ++index) {
    if (const BlockHash* hash = blocks_.prefixes().HashOfBlock(sequence, index))
      steps_.making().computing.push_back(*hash);
  }
}

/// A pooled row counts as a chunk: workers with a separate path for decodes keep no rows of it for pooling.
bool Scheduler::IsDecode(const StepMember& member) {
  return member.draws && member.num_known() == 1 && member.request->sampling.pooling == Pooling::kNone;
}

/// Decodes come first, then decodes with drafts, then chunks, each by slot.
void Scheduler::OrderBatch() {
  const auto key = [](const StepMember& m) { return std::tuple(!IsDecode(m), !m.drafts.empty(), m.slot); };
  auto& members = steps_.making().members;
  std::ranges::sort(members, {}, key);
  for (const StepMember& m : members) {
    if (!m.drafts.empty())
      plan_.drafts.push_back({m.slot, m.drafts});
    else if (IsDecode(m))
      plan_.decodes.push_back(m.slot);
    else
      plan_.chunks.push_back({m.slot, m.start, m.count});
  }
}

}  // namespace quire
