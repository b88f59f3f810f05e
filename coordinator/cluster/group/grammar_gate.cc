#include "coordinator/cluster/group/grammar_gate.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace quire {

namespace {

// A rank compiles one after another: a second one keeps it busy while its first report is under way.
constexpr int kMostAsked = 2;
constexpr double kPatienceSeconds = 60;

}  // namespace

GrammarGate::GrammarGate(WorkerGroup& group) : group_(group) {
  group_.on_grammar = [this](Rank rank, const GrammarReady& report) {
    const auto held = std::ranges::find(held_, report.ticket, &Held::ticket);
    if (held == held_.end()) return;
    held->ready.insert(rank);
    if (report.problem.empty()) return;
    spdlog::warn("rank {} cannot compile a grammar: {}", rank, report.problem);
    held->problem = report.problem;
  };
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

/// Of the client whose last turn is longest ago, the one that came first; the end when all were asked.
std::deque<GrammarGate::Held>::iterator GrammarGate::NextInTurn() {
  auto next = held_.end();
  for (auto held = held_.begin(); held != held_.end(); ++held) {
    if (held->ticket != 0) continue;
    if (next == held_.end() || turns_[held->client] < turns_[next->client]) next = held;
  }
  return next;
}

void GrammarGate::AskNext(EpochId epoch) {
  const auto is_asked = [](const Held& held) { return held.ticket != 0; };
  for (auto asked = std::ranges::count_if(held_, is_asked); asked < kMostAsked; ++asked) {
    const auto next = NextInTurn();
    if (next == held_.end()) return;
    next->ticket = turns_[next->client] = ++last_ticket_;
    next->epoch = epoch;
    next->ready.clear();
    for (Rank rank = 0; rank < group_.size(); ++rank) group_.Send(rank, GrammarMessage{next->ticket, next->source});
  }
}

/// Of clients without a grammar here.
void GrammarGate::ForgetTurns() {
  std::set<std::string_view> here;
  for (const Held& held : held_) here.insert(held.client);
  std::erase_if(turns_, [&](const auto& turn) { return !here.contains(turn.first); });
}

void GrammarGate::Round(Engine& engine, double now) {
  if (held_.empty()) return;
  const EpochId epoch = engine.epoch();
  const size_t before = held_.size();
  std::vector<Held> done;
  for (auto held = held_.begin(); held != held_.end();) {
    DropCalls(*held, now);
    if (held->ticket != 0 && held->epoch != epoch) held->ticket = 0;  // those ranks are gone
    const bool asked = held->ticket != 0;
    const bool over = asked && static_cast<int>(held->ready.size()) >= group_.size();
    if (over) done.push_back(std::move(*held));
    // What the ranks are busy with stays, although nobody waits: it has a place with them until they are ready.
    held = over || (!asked && held->calls.empty()) ? held_.erase(held) : held + 1;
  }
  AskNext(epoch);
  if (held_.size() < before) ForgetTurns();
  for (const Held& held : done) {
    for (const Call& call : held.calls) {
      if (held.problem.empty()) {
        call.arrival.submit(engine);
      } else {
        call.arrival.refuse(400, "the workers cannot compile the request's grammar: " + held.problem);
      }
    }
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
