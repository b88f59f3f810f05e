#include "coordinator/cluster/group/grammar_gate.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace quire {

namespace {

constexpr double kPatienceSeconds = 60;

/// The way back into the engine of a request that left it.
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
          .over = [id](const Engine& engine) { return !engine.requests().contains(id); }};
}

}  // namespace

void GrammarGate::OnReady(Rank rank, const GrammarReady& report) {
  const auto held = std::ranges::find(held_, report.ticket, &Held::ticket);
  if (held == held_.end()) return;
  held->ready.insert(rank);
  held->bytes = std::max({held->bytes, report.bytes, kLeastBytes});
  if (report.problem.empty()) return;
  spdlog::warn("rank {} cannot compile a grammar: {}", rank, report.problem);
  held->problem = report.problem;
}

void GrammarGate::Pass(const std::string& client, const GrammarSource& source, Arrival arrival) {
  turns_.try_emplace(client, last_ticket_ == 0 ? 0 : last_ticket_ - 1);  // before whoever was asked for last
  const auto same = [&](const Held& held) { return held.source == source && held.client == client; };
  const auto held = std::ranges::find_if(held_, same);
  Call call{std::move(arrival)};
  if (held != held_.end()) return held->calls.push_back(std::move(call));
  held_.push_back({client, source});
  held_.back().calls.push_back(std::move(call));
}

/// Those that nobody waits for, and those that waited for too long.
void GrammarGate::DropCalls(Held& held, double now) {
  std::erase_if(held.calls, [now](Call& call) {
    if (call.deadline == 0) call.deadline = now + kPatienceSeconds;
    if (call.arrival.abandoned()) return true;
    if (now < call.deadline) return false;
    call.arrival.refuse(503, "the workers have too many grammars to compile; try again later");
    return true;
  });
}

/// The first one of the client whose last turn is longest ago; the end when all were asked for that there may be
/// room for.
std::deque<GrammarGate::Held>::iterator GrammarGate::NextInTurn() {
  auto next = held_.end();
  for (auto held = held_.begin(); held != held_.end(); ++held) {
    if (held->ticket != 0 || (held->bytes > 0 && !MayHaveRoom(*held))) continue;
    if (next == held_.end() || turns_[held->client] < turns_[next->client]) next = held;
  }
  return next;
}

void GrammarGate::Tell(uint64_t ticket, const GrammarSource& source) {
  for (Rank rank = 0; rank < group_.size(); ++rank) group_.Send(rank, GrammarMessage{ticket, source});
}

void GrammarGate::AskNext() {
  // A rank compiles one after another, and whoever comes waits for those that it has.
  if (std::ranges::any_of(held_, [](const Held& held) { return held.ticket != 0; })) return;
  const auto next = NextInTurn();
  if (next == held_.end()) return;
  next->ticket = turns_[next->client] = ++last_ticket_;
  next->ready.clear();
  Tell(next->ticket, next->source);
}

/// Drops the turns of clients without a grammar here.
void GrammarGate::ForgetTurns() {
  std::set<std::string_view> here;
  for (const Held& held : held_) here.insert(held.client);
  std::erase_if(turns_, [&](const auto& turn) { return !here.contains(turn.first); });
}

/// Other ranks came, who have no grammar. What was computed is lost in any case.
void GrammarGate::BeginAnew(Engine& engine) {
  kept_.clear();
  for (Held& held : held_) held.ticket = 0;
  TakeBack(engine, [](const GrammarSource& source) { return static_cast<bool>(source); });
}

/// Requests of the engine with such a grammar leave it and wait here as new ones do.
void GrammarGate::TakeBack(Engine& engine, const std::function<bool(const GrammarSource&)>& is_one) {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : engine.requests()) {
    if (is_one(request->sampling.grammar)) ids.push_back(id);
  }
  for (const RequestId id : ids) {
    Departure left = *engine.Depart(id, 0, 0);
    const std::string client = left.request->client;
    const GrammarSource source = left.request->sampling.grammar;
    Pass(client, source, ComeBack(std::move(left.request)));
  }
}

void GrammarGate::EndCalls(const Engine& engine) {
  for (Kept& kept : kept_) std::erase_if(kept.over, [&](const auto& is_over) { return is_over(engine); });
}

/// What the client's requests, this grammar's with them, and those of others need of the ranks' room.
GrammarGate::Need GrammarGate::NeedOf(const Held& held) const {
  std::map<std::string_view, uint64_t> in_use;
  in_use[held.client] = held.bytes;
  for (const Kept& kept : kept_) {
    if (!kept.over.empty()) in_use[kept.client] += kept.bytes;
  }
  Need need{.own = in_use[held.client], .share = kRoom / std::max<size_t>(2, in_use.size())};
  uint64_t most = 0;
  for (const auto& [client, bytes] : in_use) {
    if (client != held.client) need.others += bytes;
    if (bytes > std::exchange(most, std::max(most, bytes))) need.greediest = client;
  }
  return need;
}

/// Room there might be when those are forgotten that nobody needs, and others have given way.
bool GrammarGate::MayHaveRoom(const Held& held) const {
  const Need need = NeedOf(held);
  return need.own <= need.share || (need.others < kRoom && need.own <= (kRoom - need.others) / 2);
}

/// False: it must wait until others end. The grammars of those who have to give way to it go to `given_way`.
bool GrammarGate::MakeRoomFor(const Held& held, std::vector<GrammarSource>& given_way) {
  if (!MayHaveRoom(held)) return false;
  for (Need need = NeedOf(held); need.own + need.others > kRoom; need = NeedOf(held)) {
    // It asks for no more than its share, so another has more than that. Of theirs the one that was asked for last
    // goes.
    const auto is_one = [&](const Kept& kept) { return !kept.over.empty() && kept.client == need.greediest; };
    const auto giving_way = std::ranges::find_if(kept_, is_one);
    giving_way->over.clear();
    given_way.push_back(giving_way->source);
  }
  uint64_t bytes = held.bytes;
  for (const Kept& kept : kept_) bytes += kept.bytes;
  for (auto last = kept_.end(); bytes > kRoom && last != kept_.begin();) {
    --last;
    if (!last->over.empty()) continue;
    bytes -= last->bytes;
    Tell(last->ticket, {});
    last = kept_.erase(last);
  }
  return true;
}

/// Whether the ranks keep its grammar, which is then the first of those.
bool GrammarGate::UseKept(const Held& held) {
  const auto kept = std::ranges::find(kept_, held.source, &Kept::source);
  if (kept == kept_.end()) return false;
  kept_.splice(kept_.begin(), kept_, kept);
  return true;
}

/// Its grammar is the first of those that are kept.
void GrammarGate::LetThrough(Held& held, Engine& engine) {
  for (Call& call : held.calls) {
    call.arrival.submit(engine);
    kept_.front().over.push_back(std::move(call.arrival.over));
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
  std::vector<GrammarSource> given_way;
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
      refused.push_back(std::move(*held));
    } else if (answered && MakeRoomFor(*held, given_way)) {
      over = true;
      kept_.push_front({held->client, held->source, held->ticket, held->bytes, {}});
      LetThrough(*held, engine);
    } else if (answered) {
      Tell(std::exchange(held->ticket, 0), {});
    }
    // What the ranks are busy with stays, although nobody waits: it has a place with them until they are ready.
    held = over ? held_.erase(held) : held + 1;
  }
  const auto gave_way = [&](const GrammarSource& source) {
    return std::ranges::find(given_way, source) != given_way.end();
  };
  if (!given_way.empty()) TakeBack(engine, gave_way);
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
