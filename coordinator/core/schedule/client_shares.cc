#include "coordinator/core/schedule/client_shares.h"

#include <algorithm>

namespace quire {

int ClientShares::ShareOf(Resource resource) const {
  const int all =
      resource == Resource::kSlots ? limits_.max_running : blocks_.num_usable() - blocks_.watermark_blocks();
  return std::max(1, all / std::max(1, queue_.num_active()));
}

int ClientShares::Has(const ClientAccount& account, Resource resource, StepDraft& draft) const {
  CountUse(draft);
  return resource == Resource::kSlots ? account.use.sequences : account.use.blocks;
}

int ClientShares::Needs(Request& request, Resource resource) const {
  return resource == Resource::kSlots ? static_cast<int>(request.sequences.size()) : demand_.ToRun(request);
}

void ClientShares::CountUse(StepDraft& draft) const {
  if (draft.use_counted) return;
  draft.use_counted = true;
  for (auto& [name, account] : queue_.clients()) {
    account.use.sequences = account.use.blocks = 0;
    account.use.longest_blocks = 0;
  }
  for (const Request* request : running_.requests()) {
    ClientAccount::Use& use = request->account->use;
    const int n = static_cast<int>(request->sequences.size());
    use.sequences += n;
    use.blocks += BlockDemand::Held(*request) + demand_.Soon(*request);
    use.longest_blocks += demand_.AtLongest(request->num_prompt_tokens(), request->limits.max_tokens, n);
  }
}

bool ClientShares::IsWithinShare(Request& head, StepDraft& draft) const {
  const auto covers = [&](Resource resource) {
    return Has(*head.account, resource, draft) + Needs(head, resource) <= ShareOf(resource);
  };
  return covers(Resource::kSlots) && covers(Resource::kBlocks);
}

/// True when the client's next request would exceed the client's own limits. Then requests of other clients are
/// admitted first.
bool ClientShares::IsAtLimit(const ClientAccount& account, StepDraft& draft) const {
  const ClientLimits& limits = account.limits;
  if (limits == ClientLimits{}) return false;
  CountUse(draft);
  const Request& head = account.head();
  const int n = static_cast<int>(head.sequences.size());
  const int64_t longest = demand_.AtLongest(head.num_prompt_tokens(), head.limits.max_tokens, n);
  return (limits.max_running_seqs > 0 && account.use.sequences + n > limits.max_running_seqs) ||
         (limits.max_blocks > 0 && account.use.longest_blocks + longest > limits.max_blocks);
}

/// True when the client must wait because another client's request is held for lack of sequences or blocks
/// (`others_held`). Only a client without running requests may overtake a held request, and only within its share.
/// Therefore such a client never waits for a large request of another client to fit.
bool ClientShares::IsHeldUp(const ClientAccount& account, bool others_held, StepDraft& draft) const {
  return others_held && (Has(account, Resource::kSlots, draft) > 0 || !IsWithinShare(account.head(), draft));
}

bool ClientShares::ExceedsShareAlone(Request& head) const {
  const auto exceeds = [&](Resource resource) { return Needs(head, resource) > ShareOf(resource); };
  return exceeds(Resource::kSlots) || exceeds(Resource::kBlocks);
}

/// Sums the sequences and blocks that are reserved for other clients than `taker` and not in use. Skips clients whose
/// requests were preempted for another client in this plan. What is reserved for a client is at most its present share.
KeptRoom ClientShares::CountReserves(const ClientAccount& taker, StepDraft& draft) const {
  KeptRoom reserved;
  for (const auto& [name, account] : queue_.clients()) {
    if (&account == &taker || account.reserve.until_step <= draft.number || account.use.gave_way) continue;
    const auto kept = [&](Resource resource, int most) {
      return std::max(0, std::min(most, ShareOf(resource)) - Has(account, resource, draft));
    };
    reserved.sequences += kept(Resource::kSlots, account.reserve.sequences);
    reserved.blocks += kept(Resource::kBlocks, account.reserve.blocks);
  }
  return reserved;
}

/// Orders running requests by seniority, the most senior first. While several clients are active and blocks may run
/// short, requests of clients above their share come after all others, those of the client with the most blocks last,
/// and are preempted first. The most senior of all running requests stays first, so that every step computes something.
void ClientShares::OrderForService(StepDraft& draft) const {
  std::vector<Request*>& order = draft.order;
  order = running_.requests();
  if (!draft.in_company || order.empty() || demand_.MostToGrow(order) <= blocks_.num_free()) return;
  const int share = ShareOf(Resource::kBlocks);
  CountUse(draft);
  const auto excess = [&](const Request* request) { return std::max(0, request->account->use.blocks - share); };
  std::stable_sort(order.begin() + 1, order.end(),
                   [&](const Request* a, const Request* b) { return excess(a) < excess(b); });
}

std::map<std::string, ClientReport> ClientShares::Clients() const {
  std::map<std::string, ClientReport> reports;
  for (const auto& [name, account] : queue_.clients()) {
    reports[name] = {0, account.num_waiting(), 0, 0, account.prompt_tokens, account.generated_tokens};
  }
  for (const Request* request : running_.requests()) {
    ClientReport& report = reports[request->client];
    ++report.running;
    report.running_seqs += static_cast<int>(request->sequences.size());
    report.blocks += BlockDemand::Held(*request);
  }
  return reports;
}

}  // namespace quire
