#include "coordinator/cluster/group/grammar_gate.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "coordinator/log/log.h"

namespace quire {

namespace {

constexpr double kPatienceSeconds = 60;

/// Makes an Arrival of a request that has left the engine. The Arrival brings the request back to the engine.
Arrival ComeBack(std::unique_ptr<Request> request) {
  const RequestId id = request->id;
  const auto held = std::make_shared<std::unique_ptr<Request>>(std::move(request));
  return {.submit =
              [held](Engine& engine) {
                if (const auto refusal = engine.Adopt(*held, 0, {}))
                  (*held)->sink->OnError(RequestError::kWorkersLost, *refusal);
              },
          .refuse = [held](int, const std::string& reason) { (*held)->sink->OnError(RequestError::kNoRoom, reason); },
          .abandoned = [held] { return (*held)->sink->Abandoned(); },
          .requests = {id}};
}

}  // namespace

void GrammarGate::OnReady(Rank rank, const GrammarReady& report) {
  const auto held = std::ranges::find(held_, report.ticket, &Held::ticket);
  if (held == held_.end()) return;
  held->ready.insert(rank);
  held->bytes = std::max({held->bytes, report.bytes, kLeastBytes});
  if (!report.problem.empty()) {
    const LogField of_rank("rank", int64_t{rank});
    spdlog::warn("rank {} cannot compile a grammar: {}", rank, report.problem);
    held->problem = report.problem;
  } else if (held->bytes > Room() / 2) {
    held->problem = fmt::format("compiled it takes {} bytes, and a worker with so little memory allows {}", held->bytes,
                                Room() / 2);
  }
}

void GrammarGate::Pass(const std::string& client, const GrammarSource& source, Arrival arrival) {
  turns_.try_emplace(client, last_ticket_ == 0 ? 0 : last_ticket_ - 1);  // before the client that was served last
  const GrammarDigest digest = DigestOf(source);
  const auto same = [&](const Held& held) { return held.digest == digest && held.client == client; };
  const auto held = std::ranges::find_if(held_, same);
  Call call{std::move(arrival)};
  if (held != held_.end()) return held->calls.push_back(std::move(call));
  held_.push_back({client, source, digest});
  held_.back().calls.push_back(std::move(call));
}

/// Drops abandoned calls and refuses calls that waited longer than kPatienceSeconds.
void GrammarGate::DropCalls(Held& held, double now) {
  std::erase_if(held.calls, [now](Call& call) {
    if (call.deadline == 0) call.deadline = now + kPatienceSeconds;
    if (call.arrival.abandoned()) return true;
    if (now < call.deadline) return false;
    call.arrival.refuse(503, "the workers have too many grammars to compile; try again later");
    return true;
  });
}

/// Returns the grammar that the ranks should compile next: among held grammars that the ranks were not told to compile
/// yet and for which there may be memory, the first one of the client that was served longest ago. Returns end() when
/// there is none.
std::deque<GrammarGate::Held>::iterator GrammarGate::NextInTurn() {
  auto next = held_.end();
  const Use use = UseOfRoom();
  for (auto held = held_.begin(); held != held_.end(); ++held) {
    if (held->ticket != 0 || (held->bytes > 0 && !MayHaveRoom(*held, use))) continue;
    if (next == held_.end() || turns_[held->client] < turns_[next->client]) next = held;
  }
  return next;
}

void GrammarGate::Tell(uint64_t ticket, const GrammarSource& source) {
  group_.SendToEach(GrammarMessage{ticket, source});
}

void GrammarGate::AskNext() {
  // A rank compiles one grammar at a time. Asking for one grammar at a time keeps every new client's wait short.
  if (std::ranges::any_of(held_, [](const Held& held) { return held.ticket != 0; })) return;
  const auto next = NextInTurn();
  if (next == held_.end()) return;
  next->ticket = turns_[next->client] = ++last_ticket_;
  next->ready.clear();
  Tell(next->ticket, next->source);
}

/// Removes the clients without a held grammar from turns_.
void GrammarGate::ForgetTurns() {
  std::set<std::string_view> here;
  for (const Held& held : held_) here.insert(held.client);
  std::erase_if(turns_, [&](const auto& turn) { return !here.contains(turn.first); });
}

/// Takes all requests with a grammar back from the engine. Called after the ranks were replaced, because new ranks have
/// no grammars. Taking requests back costs nothing, because the new ranks must compute all tokens again in any case.
void GrammarGate::BeginAnew(Engine& engine) {
  kept_.clear();
  kept_by_digest_.clear();
  for (Held& held : held_) held.ticket = 0;
  std::vector<RequestId> constrained;
  for (const auto& [id, request] : engine.requests()) {
    if (request->sampling.grammar) constrained.push_back(id);
  }
  TakeBack(constrained, engine);
}

/// Moves the requests from the engine back to this gate, where they wait like new requests.
void GrammarGate::TakeBack(const std::vector<RequestId>& requests, Engine& engine) {
  for (const RequestId id : requests) {
    std::optional<Departure> left = engine.Depart(id, 0, 0);
    if (!left) continue;
    const std::string client = left->request->client;
    const GrammarSource source = left->request->sampling.grammar;
    Pass(client, source, ComeBack(std::move(left->request)));
  }
}

void GrammarGate::EndCalls(const Engine& engine) {
  for (Kept& kept : kept_) std::erase_if(kept.requests, [&](RequestId id) { return !engine.requests().contains(id); });
}

GrammarGate::Use GrammarGate::UseOfRoom() const {
  Use use;
  for (const Kept& kept : kept_) {
    if (kept.requests.empty()) continue;
    use.by_client[kept.client] += kept.bytes;
    use.total += kept.bytes;
  }
  return use;
}

/// True when there would be memory for the grammar if unused grammars were forgotten and other clients' requests beyond
/// their share had left.
bool GrammarGate::MayHaveRoom(const Held& held, const Use& use) const {
  const auto own = use.by_client.find(held.client);
  const bool is_new = own == use.by_client.end();
  const uint64_t others = use.total - (is_new ? 0 : own->second), wanted = use.total - others + held.bytes;
  // Each client that uses or asks for memory has an equal share, which is at most half of the memory.
  const uint64_t share = Room() / std::max<size_t>(2, use.by_client.size() + is_new);
  return wanted <= share || (others < Room() && wanted <= (Room() - others) / 2);
}

/// Frees memory for a grammar by forgetting unused ones. Adds requests that must leave the engine to `given_way`.
/// Returns false when the grammar must wait until other requests end.
bool GrammarGate::MakeRoomFor(const Held& held, std::vector<RequestId>& given_way) {
  Use use = UseOfRoom();
  if (!MayHaveRoom(held, use)) return false;
  for (; use.total + held.bytes > Room(); use = UseOfRoom()) {
    // This client asks for no more than its share, so another client exceeds its share. That client's most recently
    // used grammar goes.
    const auto greediest = std::ranges::max_element(use.by_client, {}, [](const auto& of) { return of.second; });
    const auto is_one = [&](const Kept& kept) { return !kept.requests.empty() && kept.client == greediest->first; };
    const auto giving_way = std::ranges::find_if(kept_, is_one);
    given_way.insert(given_way.end(), giving_way->requests.begin(), giving_way->requests.end());
    giving_way->requests.clear();
  }
  uint64_t bytes = held.bytes;
  for (const Kept& kept : kept_) bytes += kept.bytes;
  for (auto last = kept_.end(); bytes > Room() && last != kept_.begin();) {
    --last;
    if (!last->requests.empty()) continue;
    bytes -= last->bytes;
    Tell(last->ticket, {});
    kept_by_digest_.erase(last->digest);
    last = kept_.erase(last);
  }
  return true;
}

/// True when the ranks have the grammar already. Then moves it to the front of kept_.
bool GrammarGate::UseKept(const Held& held) {
  const auto kept = kept_by_digest_.find(held.digest);
  if (kept == kept_by_digest_.end()) return false;
  kept_.splice(kept_.begin(), kept_, kept->second);
  return true;
}

/// Submits the held calls. Their grammar must be at the front of kept_.
void GrammarGate::LetThrough(Held& held, Engine& engine) {
  for (Call& call : held.calls) {
    call.arrival.submit(engine);
    const std::vector<RequestId>& requests = call.arrival.requests;
    kept_.front().requests.insert(kept_.front().requests.end(), requests.begin(), requests.end());
  }
}

void GrammarGate::Round(Engine& engine, double now) {
  const bool are_others = epoch_ != 0 && engine.epoch() != epoch_;
  epoch_ = engine.epoch();
  if (are_others) BeginAnew(engine);
  if (held_.empty()) return;
  EndCalls(engine);
  const size_t before = held_.size();
  std::vector<Held> refused;
  std::vector<RequestId> given_way;
  for (auto held = held_.begin(); held != held_.end();) {
    DropCalls(*held, now);
    const bool asked = held->ticket != 0;
    const bool answered = asked && static_cast<int>(held->ready.size()) >= group_.size();
    bool over = !asked && held->calls.empty();
    if (!asked && !over && UseKept(*held)) {
      over = true;
      LetThrough(*held, engine);
    } else if (answered && !held->problem.empty()) {
      over = true;
      Tell(held->ticket, {});  // a rank without a problem keeps the grammar
      refused.push_back(std::move(*held));
    } else if (answered && MakeRoomFor(*held, given_way)) {
      over = true;
      kept_.push_front({held->client, held->digest, held->ticket, held->bytes, {}});
      kept_by_digest_[held->digest] = kept_.begin();
      LetThrough(*held, engine);
    } else if (answered) {
      Tell(std::exchange(held->ticket, 0), {});
    }
    // A grammar that the ranks are compiling stays in the list even if no call waits for it, because the ranks take the
    // next grammar only afterwards.
    held = over ? held_.erase(held) : held + 1;
  }
  TakeBack(given_way, engine);
  AskNext();
  if (held_.size() < before) ForgetTurns();
  for (const Held& held : refused) {
    for (const Call& call : held.calls)
      call.arrival.refuse(400, "the workers cannot compile the request's grammar: " + held.problem);
  }
}

void GrammarGate::Open(Engine& engine) {
  const std::deque<Held> all = std::exchange(held_, {});
  turns_.clear();
  for (const Held& held : all) {
    for (const Call& call : held.calls) call.arrival.submit(engine);
  }
}

}  // namespace quire
