// What each client has of a step.
#include <algorithm>
#include <map>
#include <utility>

#include "coordinator/core/scheduler.h"

namespace quire {

namespace {

bool Decodes(const Request& request, const Sequence& sequence) { return request.TokensToCompute(sequence) == 1; }

/// A request whose beams want to draw.
struct BeamTurn {
  Request* request;
  int beams;
  int64_t last_step;                // in which it computed something
  int round = 0;                    // how many of its client's requests go before it
  int64_t last_step_of_client = 0;  // the last of all of them
};

/// None while the request waits for results.
int DrawingBeams(const Request& request) {
  const auto waits = [](const Sequence& sequence) { return sequence.num_pending > 0; };
  if (request.beams == nullptr || request.LeaderAtWork() != nullptr || std::ranges::any_of(request.sequences, waits))
    return 0;
  return static_cast<int>(
      std::ranges::count_if(request.sequences, [&](const Sequence& s) { return Decodes(request, s); }));
}

int64_t LastStep(const Request& request) {
  int64_t last = 0;
  for (const Sequence& sequence : request.sequences) last = std::max(last, sequence.last_step);
  return last;
}

/// Clients in turn, of each the request that waited longest first.
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

/// Splits the step evenly between the clients that have work in it, and keeps it short. What a client leaves the others
/// take. Returns the tokens of the step.
int Scheduler::ShareStep(StepDraft& draft) {
  for (auto& [name, account] : queue_.clients()) {
    account.use.decodes = account.use.beams = account.use.chunks_left = 0;
    account.use.chunks = 0;
  }
  for (Request* request : running_) CountDemand(*request);
  for (Request* request : draft.returning) CountDemand(*request);
  draft.sharers.clear();
  for (auto& [name, account] : queue_.clients()) {
    if (account.use.demand() > 0) draft.sharers.push_back(&account);
  }
  const int most = TokensInCompany(), others = static_cast<int>(draft.sharers.size());
  const int beams = BeamsTakeTurns(others > 0 ? most / 2 : most);
  const int tokens = std::min(std::max(most, beams + others + 1), draft.budget);
  SplitStep(tokens - beams, draft.sharers);
  return tokens;
}

/// Beams draw together or not at all: requests that have some take turns as a whole, those of a client among
/// themselves, for about so many tokens. One of them draws in any case, and the most senior request of all. Returns how
/// many beams draw.
int Scheduler::BeamsTakeTurns(int tokens) {
  int beams = 0;
  for (auto& [name, account] : queue_.clients()) beams += account.use.beams;
  if (beams <= tokens) return beams;
  std::vector<BeamTurn> turns;
  for (Request* request : running_) {
    const int drawing = DrawingBeams(*request);
    if (drawing > 0 && request != running_.front()) turns.push_back({request, drawing, LastStep(*request)});
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

void Scheduler::CountDemand(Request& request) {
  ClientAccount::Use& use = request.account->use;
  for (Sequence& sequence : request.sequences) sequence.sits_out = false;
  const auto draws = [](const Sequence& sequence) { return sequence.num_pending > 0; };
  if (request.beams != nullptr && std::ranges::any_of(request.sequences, draws)) return;  // waits for results
  if (const Sequence* leader = request.LeaderAtWork()) {
    const int start = leader->num_planned();
    use.chunks += request.StepCost(start, request.num_prompt_tokens() - 1 - start);
    return;
  }
  for (const Sequence& sequence : request.sequences) {
    const int tokens = request.TokensToCompute(sequence);
    if (tokens > 1) use.chunks += request.StepCost(sequence.num_planned(), tokens);
    if (tokens == 1) ++(request.beams != nullptr ? use.beams : use.decodes);
  }
}

/// Max-min fair: whoever wants least is served first and never gets more than an even part of what is left. Of its part
/// a client's decodes and its chunks take half each, and what the others do not need; an odd token goes to either in
/// turn. The client of the most senior request of all has a token more, so that this one computes something in every
/// step. No more is given out than there is: the youngest would find nothing, step after step.
void Scheduler::SplitStep(int tokens, std::span<ClientAccount*> sharers) {
  std::ranges::stable_sort(sharers, {}, [](const ClientAccount* account) { return account->use.demand(); });
  auto left = static_cast<int>(sharers.size());
  const ClientAccount* first = running_.empty() ? nullptr : running_.front()->account;
  int more = tokens > left ? 1 : 0;
  tokens -= more;
  const auto odd = static_cast<int>(num_steps_ % 2);
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

/// Only so many of the client's sequences compute their next token: those that did not for the longest time. The most
/// senior request of all never sits out.
void Scheduler::TakeTurns(const ClientAccount& account, int decodes) {
  std::vector<Sequence*> waiting;
  for (Request* request : running_) {
    if (request->account != &account || request->beams != nullptr || request->LeaderAtWork() != nullptr) continue;
    for (Sequence& sequence : request->sequences) {
      if (Decodes(*request, sequence)) waiting.push_back(&sequence);
    }
  }
  const bool has_first = !waiting.empty() && running_.front()->account == &account;
  auto turn = waiting.begin() + has_first;
  const auto key = [](const Sequence* s) { return std::pair(s->last_step, s->length()); };  // of equals the shorter one
  std::stable_sort(turn, waiting.end(), [&](const Sequence* a, const Sequence* b) { return key(a) < key(b); });
  for (auto i = static_cast<size_t>(std::max<int>(decodes, has_first)); i < waiting.size(); ++i)
    waiting[i]->sits_out = true;
}

/// Tokens that the request may compute in the step being made.
int Scheduler::Allowance(const Request& request, const StepDraft& draft) const {
  if (!draft.in_company) return draft.budget;
  int tokens = request.account->use.chunks_left;
  for (const Sequence& sequence : request.sequences) tokens += !sequence.sits_out && Decodes(request, sequence);
  return std::min(tokens, draft.budget);
}

/// What the work takes of its client's part.
void Scheduler::ChargeStep(const Request& request, std::span<const GrowTarget> work) {
  int& left = request.account->use.chunks_left;
  for (const auto& [sequence, end] : work) {
    if (Decodes(request, *sequence)) continue;
    const int start = sequence->num_planned();
    left = std::max(0, left - request.StepCost(start, end - start));
  }
}

}  // namespace quire
