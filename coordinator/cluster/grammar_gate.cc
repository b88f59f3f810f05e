#include "coordinator/cluster/grammar_gate.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "coordinator/cluster/engine_loop.h"

namespace quire {

namespace {

// Of one rank's queue, which plans share and which holds 64 frames.
constexpr size_t kMostAsked = 8;
constexpr double kPatienceSeconds = 10;

}  // namespace

GrammarGate::GrammarGate(WorkerGroup& group) : group_(group) {
  group_.on_grammar = [this](Rank rank, const GrammarReady& report) {
    const auto held = std::ranges::find(held_, report.ticket, &Held::ticket);
    if (held == held_.end()) return;
    held->ready.insert(rank);
    if (!report.problem.empty()) spdlog::warn("rank {} cannot compile a grammar: {}", rank, report.problem);
  };
}

void GrammarGate::Pass(const GrammarSource& source, std::function<void(Engine&)> then) {
  const auto held = std::ranges::find(held_, source, &Held::source);
  if (held != held_.end()) return held->then.push_back(std::move(then));
  held_.push_back({source, {std::move(then)}});
}

void GrammarGate::Ask(Held& held, EpochId epoch) {
  held.ticket = ++last_ticket_;
  held.epoch = epoch;
  held.deadline = EngineLoop::Now() + kPatienceSeconds;
  for (Rank rank = 0; rank < group_.size(); ++rank) group_.Send(rank, GrammarMessage{held.ticket, held.source});
}

bool GrammarGate::IsOver(const Held& held, EpochId epoch) const {
  if (held.ticket == 0) return false;
  return held.epoch != epoch || static_cast<int>(held.ready.size()) >= group_.size() ||
         EngineLoop::Now() > held.deadline;
}

void GrammarGate::Round(Engine& engine) {
  const EpochId epoch = engine.epoch();
  for (size_t i = 0; i < held_.size() && i < kMostAsked;) {
    if (held_[i].ticket == 0) Ask(held_[i], epoch);
    if (!IsOver(held_[i], epoch)) {
      ++i;
      continue;
    }
    const Held done = std::move(held_[i]);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    for (const auto& then : done.then) then(engine);
  }
}

void GrammarGate::Open(Engine& engine) {
  const std::deque<Held> all = std::exchange(held_, {});
  for (const Held& held : all) {
    for (const auto& then : held.then) then(engine);
  }
}

}  // namespace quire
