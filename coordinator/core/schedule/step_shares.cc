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
  int beams;
  int64_t last_step;                // number of the last step that computed part of the request
  int round = 0;                    // number of the same client's requests that go before this request
  int64_t last_step_of_client = 0;  // highest last_step of the client's requests
};

/// Returns the number of beams for which the next step can sample; 0 for a request without beams, or while it waits for
/// results.
int DrawingBeams(const Request& request) { return request.beams == nullptr ? 0 : request.NumDecodes(); }

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

int StepShares::ShareStep(int most, StepDraft& draft) {
  for (auto& [name, account] : queue_.clients()) {
    account.use.decodes = account.use.beams = account.use.chunks_left = 0;
    account.use.chunks = 0;
  }
  for (Request* request : running_.requests()) CountDemand(*request);
  for (Request* request : draft.returning) {
    for (Sequence& sequence : request->sequences) sequence.sits_out = false;
    CountDemand(*request);
  }
  draft.sharers.clear();
  for (auto& [name, account] : queue_.clients()) {
    if (account.use.demand() > 0) draft.sharers.push_back(&account);
  }
  const auto others = static_cast<int>(draft.sharers.size());
  const int beams = BeamsTakeTurns(others > 0 ? most / 2 : most);
  const int tokens = std::min(std::max(most, beams + others + 1), draft.budget);
  SplitStep(tokens - beams, draft);
  return tokens;
}

/// Chooses the requests for whose beams this step samples, about `tokens` beams in all, and lets the other requests sit
/// out. All beams of a request are sampled in the same step, so requests take turns. Clients alternate, and so do the
/// requests of a client. The most senior request never sits out; of the other requests at least one takes part. Returns
/// the number of beams for which the step samples.
int StepShares::BeamsTakeTurns(int tokens) {
  int beams = 0;
  for (auto& [name, account] : queue_.clients()) beams += account.use.beams;
  if (beams <= tokens) return beams;
  std::vector<BeamTurn> turns;
  for (Request* request : running_.requests()) {
    const int drawing = DrawingBeams(*request);
    if (drawing > 0 && request != running_.requests().front()) turns.push_back({request, drawing, LastStep(*request)});
  }
  PutInTurn(turns);
  int taken = 0;
  for (const BeamTurn& turn : turns) {
    taken += turn.beams;
    if (taken <= tokens || taken == turn.beams) continue;
    taken -= turn.beams;
    beams -= turn.beams;
    for (Sequence& sequence : turn.request->sequences) sequence.sits_out = true;
  }
  return beams;
}

void StepShares::CountDemand(Request& request) {
  ClientAccount::Use& use = request.account->use;
  const auto draws = [](const Sequence& sequence) { return sequence.num_pending > 0; };
  if (request.beams != nullptr && std::ranges::any_of(request.sequences, draws)) return;  // the beams wait for results
  if (const Sequence* leader = request.LeaderAtWork()) {
    const int start = leader->num_planned();
    use.chunks += request.StepCost(start, request.num_prompt_tokens() - 1 - start);
    return;
  }
  for (const Sequence& sequence : request.sequences) {
    if (sequence.sits_out) continue;
    const int tokens = request.TokensToCompute(sequence);
    if (tokens > 1) use.chunks += request.StepCost(sequence.length() - tokens, tokens);
    if (tokens == 1) ++(request.beams != nullptr ? use.beams : use.decodes);
  }
}

/// Splits the tokens max-min fair: the client with the least demand is served first, and no client gets more than an
/// even part of the remainder. Within a client, decodes and chunks get half each, plus what the other half leaves over;
/// an odd token goes to them alternately. The client of the most senior request gets one extra token, so that this
/// request computes something in every step. The parts together never exceed the step; otherwise the youngest request
/// would find no token left in step after step.
void StepShares::SplitStep(int tokens, StepDraft& draft) {
  std::vector<ClientAccount*>& sharers = draft.sharers;
  std::ranges::stable_sort(sharers, {}, [](const ClientAccount* account) { return account->use.demand(); });
  auto left = static_cast<int>(sharers.size());
  const ClientAccount* first = running_.empty() ? nullptr : running_.requests().front()->account;
  int more = tokens > left ? 1 : 0;
  tokens -= more;
  const auto odd = static_cast<int>(draft.number % 2);
  for (ClientAccount* account : sharers) {
    ClientAccount::Use& use = account->use;
    auto part = static_cast<int>(std::min<int64_t>(use.demand(), tokens / left--));
    tokens -= part;
    if (account == first && use.demand() > part) part += std::exchange(more, 0);
    use.chunks_left = static_cast<int>(std::min<int64_t>(use.chunks, std::max((part + odd) / 2, part - use.decodes)));
    const int decodes = part - use.chunks_left;
    if (decodes < use.decodes) TakeTurns(*account, decodes);
  }
}

/// Lets only `decodes` of the client's sequences compute their next token: the sequences that waited longest. The most
/// senior running request never sits out.
void StepShares::TakeTurns(const ClientAccount& account, int decodes) {
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
  for (auto i = static_cast<size_t>(std::max<int>(decodes, has_first)); i < waiting.size(); ++i)
    waiting[i]->sits_out = true;
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
  return {decodes, draft.in_company ? std::min(rest, request.account->use.chunks_left) : rest};
}

void StepShares::ChargeStep(const Request& request, std::span<const GrowTarget> work) {
  int& left = request.account->use.chunks_left;
  for (const auto& [sequence, end, from_host, slice, slice_cost] : work) {
    if (Decodes(request, *sequence)) continue;
    const int start = sequence->num_planned();
    left = std::max(0, left - request.StepCost(start, end - start));
  }
}

}  // namespace quire
