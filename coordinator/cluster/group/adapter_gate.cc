#include "coordinator/cluster/group/adapter_gate.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/log/log.h"

namespace quire {

void AdapterGate::Load(const AdapterOrder& order, Done done, OnLost on_lost) {
  lost_.erase(order.number);
  held_.push_back({order, std::move(done), std::move(on_lost), {}});
}

void AdapterGate::Tell(const Held& held, bool wanted) {
  const AdapterOrder& order = held.order;
  group_.SendToEach(
      AdapterMessage{order.ticket, order.number, wanted ? order.path : "", order.fingerprint, order.file_bytes});
}

void AdapterGate::Unload(uint64_t ticket) {
  const auto held = std::ranges::find(held_, ticket, [](const Held& each) { return each.order.ticket; });
  if (held != held_.end()) held->leaving = true;
}

void AdapterGate::OnReady(Rank rank, const AdapterReady& report) {
  const auto held = std::ranges::find(held_, report.ticket, [](const Held& each) { return each.order.ticket; });
  if (held == held_.end()) return;
  held->ready.insert(rank);
  held->bytes = std::max(held->bytes, report.bytes);
  if (report.problem.empty()) return;
  const LogField of_rank("rank", int64_t{rank});
  spdlog::warn("rank {} cannot load the adapter {}: {}", rank, held->order.name, report.problem);
  held->problem = fmt::format("rank {}: {}", rank, report.problem);
}

/// Makes all ranks drop an adapter that a rank could not read, and reports the problem.
void AdapterGate::Refuse(Held& held, Engine& engine) {
  Tell(held, false);
  if (held.done) return held.done(held.problem, 0);
  // The adapter was served before the ranks were replaced.
  std::string& why = lost_[held.order.number];
  why = fmt::format("the adapter {} is lost with the workers that had it", held.order.name);
  spdlog::error("{}: {}", why, held.problem);  // the problem names a path, which clients need not learn
  EndLost(engine);
  held.on_lost(held.problem);
}

/// Ends the engine's requests for lost adapters with an error, including requests that entered the engine later.
void AdapterGate::EndLost(Engine& engine) const {
  if (lost_.empty()) return;
  std::vector<std::pair<RequestId, std::string>> ended;
  for (const auto& [id, request] : engine.requests()) {
    if (const auto lost = lost_.find(request->adapter); lost != lost_.end()) ended.emplace_back(id, lost->second);
  }
  for (const auto& [id, why] : ended) engine.Abort(id, RequestError::kGivenUp, why);
}

/// Takes the adapter one step further: sends it to the ranks, lets the engine use it, or drops it. Returns false when
/// the adapter can be forgotten.
bool AdapterGate::Advance(Held& held, Engine& engine) {
  if (held.leaving) {
    if (held.usable) engine.AdapterGone(held.order.number);
    if (held.told) Tell(held, false);
    if (held.done) held.done("it was unloaded meanwhile", 0);
    return false;
  }
  if (!std::exchange(held.told, true)) Tell(held, true);
  if (held.usable || static_cast<int>(held.ready.size()) < group_.size()) return true;
  if (!held.problem.empty()) {
    Refuse(held, engine);
    return false;
  }
  held.usable = true;
  on_came_(held.order);
  engine.AdapterCame(held.order.number);
  if (const Done done = std::exchange(held.done, nullptr)) done("", static_cast<int64_t>(held.bytes));
  return true;
}

void AdapterGate::Round(Engine& engine) {
  const bool are_others = std::exchange(epoch_, engine.epoch()) != engine.epoch();
  for (auto held = held_.begin(); held != held_.end();) {
    if (are_others) {
      held->told = held->usable = false;
      held->ready.clear();
      held->problem.clear();
    }
    held = Advance(*held, engine) ? std::next(held) : held_.erase(held);
  }
  EndLost(engine);
}

void AdapterGate::Open() {
  for (Held& held : held_) {
    if (const Done done = std::exchange(held.done, nullptr)) done("", 0);
  }
}

}  // namespace quire
