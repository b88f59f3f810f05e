#include "coordinator/core/schedule/step_shares.h"

#include <algorithm>
#include <map>
#include <utility>

namespace quire {

namespace {

bool Decodes(const Request& request, const Sequence& sequence) { return request.TokensToCompute(sequence) == 1; }

/// A request that is ready for a step which samples for all its beams.
struct BeamTurn {
  Request* request;
  int64_t work;                     // the work of all beams of the request
  int64_t last_step;                // number of the last step that computed part of the request
  int round = 0;                    // number of the same client's requests that go before this request
  int64_t last_step_of_client = 0;  // highest last_step of the client's requests
};

int64_t LastStep(const Request& request) {
  int64_t last = 0;
  for (const Sequence& sequence : request.sequences) last = std::max(last, sequence.last_step);
  return last;
}

/// Sorts by turns: clients alternate, and within a client the request that waited longest goes first.
void PutInTurn(std::vector<BeamTurn>& turns) {
  struct Client {
    int requests = 0;
    int64_t last_step = 0;
  };
  std::map<const ClientAccount*, Client> clients;
  std::ranges::stable_sort(turns, {}, &BeamTurn::last_step);
  for (BeamTurn& turn : turns) {
    Client& client = clients[turn.request->account];
    turn.round = client.requests++;
    client.last_step = turn.last_step;
  }
  for (BeamTurn& turn : turns) turn.last_step_of_client = clients[turn.request->account].last_step;
  const auto key = [](const BeamTurn& turn) { return std::pair(turn.round, turn.last_step_of_client); };
  std::ranges::stable_sort(turns, {}, key);
}

}  // namespace

/// Returns the work of the beams for which the next step can sample; 0 for a request without beams, or while it waits
/// for results.
int64_t StepShares::WorkOfBeams(const Request& request) const {
  if (request.beams == nullptr) return 0;
  return int64_t{request.NumDecodes()} * cost_.Weight(request.sequences.front().length() - 1);
}

/// Returns the number of beams for which the next step samples.
int64_t StepShares::NumBeams() const {
  int64_t beams = 0;
  for (const Request* request : running_.requests()) {
    if (request->beams != nullptr && !request->sequences.front().sits_out) beams += request->NumDecodes();
  }
  return beams;
}

void StepShares::ShareStep(const StepBudget& most, StepDraft& draft) {
  for (auto& [name, account] : queue_.clients()) {
    account.use.tokens = account.use.decodes = account.use.beams = account.use.chunks = account.use.chunks_left = 0;
  }
  for (Request* request : running_.requests()) CountDemand(*request);
  for (Request* request : draft.returning) {
    for (Sequence& sequence : request->sequences) sequence.sits_out = false;
    CountDemand(*request);
  }
  draft.sharers.clear();
  int64_t tokens = 0;
  for (auto& [name, account] : queue_.clients()) {
    tokens += account.use.tokens;
    if (account.use.demand() > 0) draft.sharers.push_back(&account);
  }
  // A step that cannot have all tokens has no more work than tokens. So each part has its tokens.
  const int64_t wanted = tokens > most.tokens ? std::min<int64_t>(most.tokens, most.work) : most.work;
  const std::ptrdiff_t others = std::ssize(draft.sharers);
  const int64_t beams = BeamsTakeTurns(others > 0 ? wanted / 2 : wanted), least = beams + others + 1;
  const int64_t for_contexts = beams - NumBeams();  // the work of the beams beyond one token each
  int64_t work = std::max(wanted, least);
  if (tokens > draft.budget) work = std::min(work, draft.budget + for_contexts);
  work = std::max(work, wanted + for_contexts);  // beams take tokens from other requests, but not for their contexts
  SplitStep(work - beams, draft);
  draft.work_left = work;
  draft.SetBudget(static_cast<int>(std::min({int64_t{draft.budget}, work, std::max<int64_t>(most.tokens, least)})));
}

/// Chooses the requests for whose beams this step samples, with about this work in all, and lets the other requests sit
/// out. All beams of a request are sampled in the same step, so requests take turns, between clients and within a
/// client. The most senior request never sits out; of the other requests at least one takes part. Returns the work of
/// the beams for which the step samples.
int64_t StepShares::BeamsTakeTurns(int64_t work) {
  int64_t beams = 0;
  for (auto& [name, account] : queue_.clients()) beams += account.use.beams;
  if (beams <= work) return beams;
  std::vector<BeamTurn> turns;
  for (Request* request : running_.requests()) {
    const int64_t drawing = WorkOfBeams(*request);
    if (drawing > 0 && request != running_.requests().front()) turns.push_back({request, drawing, LastStep(*request)});
  }
  PutInTurn(turns);
  int64_t taken = 0;
  for (const BeamTurn& turn : turns) {
    taken += turn.work;
    if (taken <= work || taken == turn.work) continue;
    taken -= turn.work;
    beams -= turn.work;
    for (Sequence& sequence : turn.request->sequences) sequence.sits_out = true;
  }
  return beams;
}

void StepShares::CountDemand(Request& request) {
  ClientAccount::Use& use = request.account->use;
  const auto draws = [](const Sequence& sequence) { return sequence.num_pending > 0; };
  if (request.beams != nullptr && std::ranges::any_of(request.sequences, draws)) return;  // the beams wait for results
  if (const Sequence* leader = request.LeaderAtWork()) {
    const int start = leader->num_planned(), tokens = request.StepCost(start, request.num_prompt_tokens() - 1 - start);
    use.tokens += tokens;
    use.chunks += int64_t{tokens} * cost_.Weight(start);
    return;
  }
  for (const Sequence& sequence : request.sequences) {
    if (sequence.sits_out) continue;
    const int tokens = request.TokensToCompute(sequence);
    const int start = sequence.length() - tokens, cost = tokens > 1 ? request.StepCost(start, tokens) : tokens;
    (tokens > 1                 ? use.chunks
     : request.beams != nullptr ? use.beams
                                : use.decodes) += int64_t{cost} * cost_.Weight(start);
    use.tokens += cost;
  }
}

/// Splits the work max-min fair: the client with the least demand is served first, and no client gets more than an
/// even part of the remainder. Within a client, decodes and chunks get half each, plus what the other half leaves; an
/// odd token goes to either in turn. The client of the most senior request gets one extra token, so that this request
/// computes something in every step. The parts together never exceed the step; otherwise the youngest request would
/// find no token left in step after step.
void StepShares::SplitStep(int64_t work, StepDraft& draft) {
  std::vector<ClientAccount*>& sharers = draft.sharers;
  std::ranges::stable_sort(sharers, {}, [](const ClientAccount* account) { return account->use.demand(); });
  auto left = static_cast<int>(sharers.size());
  const ClientAccount* first = running_.empty() ? nullptr : running_.requests().front()->account;
  int more = work > left ? 1 : 0;
  work -= more;
  const auto odd = static_cast<int>(draft.number % 2);
  for (ClientAccount* account : sharers) {
    ClientAccount::Use& use = account->use;
    int64_t part = std::min(use.demand(), work / left--);
    work -= part;
    if (account == first && use.demand() > part) part += std::exchange(more, 0);
    use.chunks_left = std::min(use.chunks, std::max((part + odd) / 2, part - use.decodes));
    const int64_t decodes = part - use.chunks_left;
    if (decodes < use.decodes) TakeTurns(*account, decodes);
  }
}

/// Lets only some of the client's sequences compute their next token, with this work in all: the sequences that waited
/// longest, at least one of them. The most senior request of all never sits out, and counts as a single token.
void StepShares::TakeTurns(const ClientAccount& account, int64_t work) {
  std::vector<Sequence*> waiting;
  for (Request* request : running_.requests()) {
    if (request->account != &account || request->beams != nullptr || request->LeaderAtWork() != nullptr) continue;
    for (Sequence& sequence : request->sequences) {
      if (Decodes(*request, sequence) && !sequence.sits_out) waiting.push_back(&sequence);
    }
  }
  const bool has_first = !waiting.empty() && running_.requests().front()->account == &account;
  auto turn = waiting.begin() + has_first;
  const auto key = [](const Sequence* s) { return std::pair(s->last_step, s->length()); };  // the shorter goes first
  std::stable_sort(turn, waiting.end(), [&](const Sequence* a, const Sequence* b) { return key(a) < key(b); });
  int64_t taken = has_first;
  bool takes_part = false;
  for (; turn != waiting.end(); ++turn) {
    const int64_t its = cost_.Weight((*turn)->length() - 1);
    const bool fits = takes_part ? taken + its <= work : taken < work;
    if (fits) taken += its;
    takes_part = takes_part || fits;
    (*turn)->sits_out = !fits;
  }
}

int64_t StepShares::LimitDecodes(int64_t most, StepDraft& draft) {
  int64_t decodes = 0, count = 0, beams = 0;
  for (const Request* request : running_.requests()) {
    beams += WorkOfBeams(*request);
    if (request->beams != nullptr || request->LeaderAtWork() != nullptr) continue;
    for (const Sequence& sequence : request->sequences) {
      if (!Decodes(*request, sequence) || (draft.in_turns && sequence.sits_out)) continue;
      decodes += cost_.Weight(sequence.length() - 1);
      ++count;
    }
  }
  most = std::max(most, count);
  if (decodes <= most) return decodes + beams;
  if (!std::exchange(draft.in_turns, true)) {
    for (Request* request : running_.requests()) {
      for (Sequence& sequence : request->sequences) sequence.sits_out = false;
    }
  }
  TakeTurns(*running_.requests().front()->account, most);
  return most + beams;
}

int StepShares::DecodesOf(const Request& request, const StepDraft& draft) {
  int decodes = request.NumDecodes();
  if (!draft.in_turns || decodes == 0) return decodes;
  for (const Sequence& sequence : request.sequences) decodes -= sequence.sits_out && Decodes(request, sequence);
  return decodes;
}

Allowance StepShares::AllowanceOf(const Request& request, int later_decodes, const StepDraft& draft) const {
  const int decodes = std::min(DecodesOf(request, draft), draft.budget);
  const int rest = std::max(0, draft.budget - decodes - later_decodes);
  return {decodes, rest, draft.in_company ? request.account->use.chunks_left : draft.work_left};
}

void StepShares::ChargeStep(const Request& request, std::span<const GrowTarget> work, const LearnedCost& cost,
                            StepDraft& draft) {
  int64_t& left = request.account->use.chunks_left;
  for (const auto& [sequence, end, from_host, slice, slice_cost] : work) {
    const int start = sequence->num_planned();
    const int64_t its =
        slice.count > 0 ? slice_cost : int64_t{request.StepCost(start, end - start)} * cost.Weight(start);
    draft.work_left -= its;
    if (draft.in_company && !Decodes(request, *sequence)) left = std::max<int64_t>(0, left - its);
  }
}

}  // namespace quire
