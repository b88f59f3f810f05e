#include "coordinator/api/models/model_clients.h"

#include <algorithm>

namespace quire {

namespace {
constexpr double kEndless = std::numeric_limits<double>::infinity();
}

void ClientTurns::Note(const std::string& client, double now) {
  last_[client] = now;
  if (last_.size() > kMost)
    last_.erase(std::ranges::min_element(last_, {}, [](const auto& each) { return each.second; }));
}

double ClientTurns::LastOf(const std::string& client) const {
  const auto found = last_.find(client);
  return found == last_.end() ? -kEndless : found->second;
}

void ModelClients::AddWish(const ModelClient& client, double now) {
  wishes_.push_back({client, now});
  lines_ += client.background ? 1 : 0;
}

bool ModelClients::RemoveWish(const ModelClient& client) {
  const auto found = std::ranges::find(wishes_, client, &Wish::client);
  if (found == wishes_.end()) return false;
  wishes_.erase(found);
  lines_ -= client.background ? 1 : 0;
  return true;
}

double ModelClients::WishedSince() const {
  const bool only_lines = !HasWish();
  double since = kEndless;
  for (const Wish& wish : wishes_) {
    if (only_lines || !wish.client.background) since = std::min(since, wish.since);
  }
  return since;
}

ModelClients::Due ModelClients::FirstDue(const ClientTurns& turns, double share) const {
  const bool only_lines = !HasWish();
  Due first;
  for (const Wish& wish : wishes_) {
    if (wish.client.background && !only_lines) continue;
    const double due = std::max(wish.since, turns.LastOf(wish.client.name) + share);
    if (due < first.seconds) first = {due, wish.client.name};
  }
  return first;
}

/// Returns the time until which this client wants the model to stay loaded; minus infinity if the client has not used
/// the model.
double ModelClients::EndOf(const Times& times) const {
  if (!times.last_used) return -kEndless;
  const double keep = times.keep.value_or(keep_alive_);
  return keep < 0 ? kEndless : *times.last_used + keep;
}

ModelClients::Times& ModelClients::Of(const std::string& client) {
  const auto [found, is_new] = times_.try_emplace(client);
  if (!is_new || times_.size() <= kMost) return found->second;
  auto first = times_.end();
  for (auto each = times_.begin(); each != times_.end(); ++each) {
    if (each == found) continue;
    if (first == times_.end() || EndOf(each->second) < EndOf(first->second)) first = each;
  }
  times_.erase(first);
  return found->second;
}

void ModelClients::Keep(const std::string& client, double seconds) { Of(client).keep = seconds; }

void ModelClients::Used(const ModelClient& client, double now) {
  Times& times = Of(client.name);
  times.last_used = now;
  if (client.background) return;
  times.ordinary = true;
  last_use_ = now;
}

void ModelClients::Begin() {
  for (auto& [client, times] : times_) times.last_used.reset(), times.ordinary = false;
  std::erase_if(times_, [](const auto& each) { return !each.second.keep; });
  last_use_ = -kEndless;
}

double ModelClients::End(double began) const {
  double end = -kEndless;
  for (const auto& [client, times] : times_) end = std::max(end, EndOf(times));
  if (end > -kEndless) return end;
  return keep_alive_ < 0 ? kEndless : began + keep_alive_;
}

bool ModelClients::UsedByOthersThan(const ModelClients& wished) const {
  return std::ranges::any_of(times_, [&](const auto& each) {
    // An operator's request, which has no name, counts as a request of every client.
    const auto waits = [&](const Wish& wish) { return wish.client.name == each.first || wish.client.name.empty(); };
    return each.second.ordinary && std::ranges::none_of(wished.wishes_, waits);
  });
}

}  // namespace quire
