// Shares of running places and blocks between clients; shares of steps: step_shares.cc. A client alone is never
// affected: Schedule calls this code only while several clients are active, and for kCompanyKept seconds of steps after
// that.
#include <algorithm>
#include <cmath>

#include "comm/base/error.h"
#include "coordinator/core/schedule/scheduler.h"

namespace quire {

/// False when the step must wait for results, because a request must be preempted for another client first.
bool Scheduler::ShareOut(StepDraft& draft) {
  const bool may_give_way = queue_.num_active() > 1;
  if (may_give_way && !SharePlaces(draft)) return false;
  draft.SetBudget(ShareStep(draft));
  return true;
}

/// Gives clients in turn the running places and blocks that are free or that their share entitles them to. For
/// swapped-out requests this only makes room; AdmitWaiting swaps them in after the running requests got their work.
bool Scheduler::SharePlaces(StepDraft& draft) {
  if (queue_.empty()) return true;
  Crowd crowd = CountCrowd();
  bool others_held = false;
  while (ClientAccount* client = queue_.Next()) {
    Request& head = client->head();
    if (!running_.empty() && (IsSuspect(head) || crowd.suspect)) return true;
    client->use.passed_over = IsAtLimit(*client) || IsHeldUp(*client, others_held);
    if (client->use.passed_over || StandsBack(*client)) continue;
    const bool fits = !RoomFor(head, crowd).lacks || MakeWayFor(head, crowd);
    if (left_out_) return false;
    client->use.passed_over = !fits || head.swapped_out();
    others_held = others_held || client->use.passed_over;
    if (!fits) continue;
    if (head.swapped_out())
      draft.returning.push_back(&head);
    else
      Admit(head, draft);  // ScheduleRunning calls FindWork again, in the order of service
    CountIn(head, crowd);
  }
  return true;
}

/// True when several clients are active, and this client's running requests and its next one together exceed its share.
/// Other clients within their shares go first: they could preempt that request at once, and its computed tokens would
/// be lost. At the client's next turn it takes room that no other client is entitled to. A request that exceeds a share
/// by itself keeps its turn, because other clients might always go first.
bool Scheduler::StandsBack(ClientAccount& account) {
  Request& head = account.head();
  if (account.use.stands_back || queue_.num_active() < 2 || IsWithinShare(head)) return false;
  const auto covers = [&](Resource resource) { return Needs(head, resource) <= ShareOf(resource); };
  account.use.stands_back = covers(Resource::kSlots) && covers(Resource::kBlocks);
  return account.use.stands_back;
}

/// True when the client has a limit of its own and its next request would exceed it. The others are not held up by
/// that.
bool Scheduler::IsAtLimit(const ClientAccount& account) {
  const ClientLimits& limits = account.limits;
  if (limits == ClientLimits{}) return false;
  CountUse();
  const Request& head = account.head();
  const int n = static_cast<int>(head.sequences.size());
  const int64_t longest = BlocksAtLongest(head.num_prompt_tokens(), head.limits.max_tokens, n);
  return (limits.max_running_seqs > 0 && account.use.sequences + n > limits.max_running_seqs) ||
         (limits.max_blocks > 0 && account.use.longest_blocks + longest > limits.max_blocks);
}

/// While a request is held for lack of room, only clients with nothing running go before it, each within its share. So
/// a newcomer never waits until a large request fits, and the large request waits for no client that already runs
/// requests.
bool Scheduler::IsHeldUp(const ClientAccount& account, bool others_held) {
  return others_held && (Has(account, Resource::kSlots) > 0 || !IsWithinShare(account.head()));
}

/// Preempts the youngest requests of clients above their share until the request fits, provided that it stays within
/// its own client's share. False when it does not fit, or when preemption must wait until no step is outstanding.
bool Scheduler::MakeWayFor(Request& head, Crowd& crowd) {
  if (!IsWithinShare(head)) return false;
  while (const std::optional<Resource> lacks = RoomFor(head, crowd).lacks) {
    Request* victim = WhoGivesWay(head, *lacks);
    left_out_ = victim != nullptr && ahead();
    if (victim == nullptr || left_out_) return false;
    const auto kind = *lacks == Resource::kSlots ? DecisionKind::kGivesUpPlaces : DecisionKind::kGivesUpBlocks;
    Tell(kind, *victim, Has(*victim->account, *lacks), ShareOf(*lacks), head.id);
    ++victim->num_yields;
    victim->account->use.gave_way = victim->account->use.passed_over = true;
    CountOut(*victim, crowd);
    Preempt(*victim, head);
    use_counted_ = false;
    head.account->reserve = {Needs(head, Resource::kSlots), Needs(head, Resource::kBlocks),
                             num_steps_ + kReservedSteps};
  }
  return true;
}

/// The room reserved for clients that have nothing running. Nothing is kept for a client that gave way with this plan.
KeptRoom Scheduler::CountReserves() const {
  KeptRoom reserved;
  for (const auto& [name, account] : queue_.clients()) {
    if (account.reserve.until_step <= num_steps_) continue;
    if (account.active > account.num_waiting() || account.use.gave_way) continue;
    reserved.sequences += account.reserve.sequences;
    reserved.blocks += account.reserve.blocks;
  }
  return reserved;
}

bool Scheduler::IsWithinShare(Request& head) {
  const auto covers = [&](Resource resource) {
    return Has(*head.account, resource) + Needs(head, resource) <= ShareOf(resource);
  };
  return covers(Resource::kSlots) && covers(Resource::kBlocks);
}

/// The youngest request of the client that has most of the lacking resource and more than its share. A request that
/// gave way before is protected for a time that doubles each time up to a bound; others may have to wait that long for
/// it. A request that needs more than its client's share may be preempted again and again while other clients keep
/// sending requests.
Request* Scheduler::WhoGivesWay(const Request& head, Resource resource) {
  Request* youngest = nullptr;
  int most = ShareOf(resource);
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    Request& request = **it;
    if (request.account == head.account || IsProtected(request)) continue;
    const int has = Has(*request.account, resource);
    if (has <= most) continue;
    youngest = &request;
    most = has;
  }
  return youngest;
}

bool Scheduler::IsProtected(const Request& request) const {
  constexpr int kMostDoublings = 3;
  if (request.num_yields == 0) return false;
  const int64_t steps = kProtectedSteps << std::min(request.num_yields - 1, kMostDoublings);
  return num_steps_ - request.admitted_step < steps;
}

/// The amount that one active client may have while another one waits for it.
int Scheduler::ShareOf(Resource resource) const {
  const int all =
      resource == Resource::kSlots ? limits_.max_running : blocks_.num_usable() - blocks_.watermark_blocks();
  return std::max(1, all / std::max(1, queue_.num_active()));
}

int Scheduler::Has(const ClientAccount& account, Resource resource) {
  CountUse();
  return resource == Resource::kSlots ? account.use.sequences : account.use.blocks;
}

void Scheduler::CountUse() {
  if (use_counted_) return;
  use_counted_ = true;
  for (auto& [name, account] : queue_.clients()) {
    account.use.sequences = account.use.blocks = 0;
    account.use.longest_blocks = 0;
  }
  for (const Request* request : running_) {
    ClientAccount::Use& use = request->account->use;
    const int n = static_cast<int>(request->sequences.size());
    use.sequences += n;
    use.blocks += BlocksOf(*request) + OutstandingBlocks(*request);
    use.longest_blocks += BlocksAtLongest(request->num_prompt_tokens(), request->limits.max_tokens, n);
  }
}

/// Orders running requests by seniority, the most senior first. While several clients are active and blocks may run
/// short, requests of clients above their share come after all others, those of the largest client last: they are
/// preempted first. The most senior request of all stays in front in any case, so that every step computes something.
void Scheduler::OrderForService(StepDraft& draft) {
  std::vector<Request*>& order = draft.order;
  order = running_;
  if (!draft.in_company || order.empty() || MostToGrow() <= blocks_.num_free()) return;
  const int share = ShareOf(Resource::kBlocks);
  CountUse();
  const auto excess = [&](const Request* request) { return std::max(0, request->account->use.blocks - share); };
  std::stable_sort(order.begin() + 1, order.end(),
                   [&](const Request* a, const Request* b) { return excess(a) < excess(b); });
}

/// Upper bound of the blocks that this step can take for running requests, copies included.
int Scheduler::MostToGrow() const {
  int most = 0;
  for (const Request* request : running_) {
    for (const Sequence& sequence : request->sequences) {
      if (sequence.finished) continue;
      most += 1 + std::max(0, blocks_.BlocksFor(sequence.length()) - static_cast<int>(sequence.blocks.size()));
      if (blocks_.has_states()) most += blocks_.states().MostToGrow(sequence);
    }
  }
  return most;
}

std::map<std::string, Scheduler::ClientReport> Scheduler::Clients() const {
  std::map<std::string, ClientReport> reports;
  for (const auto& [name, account] : queue_.clients()) {
    reports[name] = {0, account.num_waiting(), 0, 0, account.prompt_tokens, account.generated_tokens};
  }
  for (const Request* request : running_) {
    ClientReport& report = reports[request->client];
    ++report.running;
    report.running_seqs += static_cast<int>(request->sequences.size());
    report.blocks += BlocksOf(*request);
  }
  return reports;
}

}  // namespace quire
