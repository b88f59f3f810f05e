#include "tests/sim/turns.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/schedule/waiting_queue.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

int Turns::Active(const std::string& client) const {
  int active = 0;
  for (const auto& [id, entry] : entries_) active += entry.client == client && entry.state != State::kGone;
  return active;
}

void Turns::Joined(const Request& request) {
  if (Active(request.client) == 0) {  // the client had no requests, so its count starts level with the others'
    double least = -1, most = 0;      // least of the present clients, and most of all clients
    for (const auto& [name, served] : served_) {
      most = std::max(most, served);
      if (Active(name) > 0 && (least < 0 || served < least)) least = served;
    }
    double& served = served_[request.client];
    served = std::max(served, least < 0 ? most : least);
  }
  Entry& entry = entries_[request.id];
  entry.client = request.client;
  entry.arrival = request.arrival_seconds;
  entry.rank = request.arrival_seconds + 30.0 * request.priority;
  entry.prompt = request.num_prompt_tokens();
  entry.state = entry.charged ? State::kPreempted : State::kWaiting;
}

void Turns::GroupLost() {
  for (auto& [id, entry] : entries_) {
    if (entry.state == State::kRunning) entry.state = State::kPreempted;
  }
}

int Turns::NumActive() const {
  std::set<std::string> clients;
  for (const auto& [id, entry] : entries_) {
    if (entry.state != State::kGone) clients.insert(entry.client);
  }
  return static_cast<int>(clients.size());
}

bool Turns::Runs(const std::string& client) const {
  return std::ranges::any_of(
      entries_, [&](const auto& e) { return e.second.client == client && e.second.state == State::kRunning; });
}

/// Returns the next request of every waiting client: preempted requests come first, by arrival; then the others, by
/// their rank in the queue.
std::map<std::string, RequestId> Turns::Heads() const {
  std::map<std::string, RequestId> heads;
  const auto key = [&](RequestId id) {
    const Entry& entry = entries_.at(id);
    const bool waits = entry.state == State::kWaiting;
    return std::tuple{waits, waits ? entry.rank : entry.arrival, id};
  };
  for (const auto& [id, entry] : entries_) {
    if (entry.state != State::kWaiting && entry.state != State::kPreempted) continue;
    const auto [head, is_new] = heads.emplace(entry.client, id);
    if (!is_new && key(id) < key(head->second)) head->second = id;
  }
  return heads;
}

std::vector<RequestId> Turns::Before(RequestId id) const {
  const auto key = [&](RequestId head) {
    const Entry& entry = entries_.at(head);
    return std::tuple{served_.at(entry.client), entry.arrival, head};
  };
  std::vector<RequestId> before;
  for (const auto& [client, head] : Heads()) {
    if (client != entries_.at(id).client && key(head) < key(id)) before.push_back(head);
  }
  return before;
}

std::vector<RequestId> Turns::HeadsOfOthers(RequestId id) const {
  std::vector<RequestId> others;
  for (const auto& [client, head] : Heads()) {
    if (client != entries_.at(id).client) others.push_back(head);
  }
  return others;
}

void Turns::Held(RequestId id, const Requests& requests) {
  NoteCached(requests, id);
  const auto heads = Heads();
  const auto head = heads.find(entries_.at(id).client);
  if (head == heads.end() || head->second != id)
    throw Failure{
        fmt::format("request {} is looked at where it is the turn of {}", id, head == heads.end() ? 0 : head->second)};
}

void Turns::Admitted(RequestId id, const Requests& requests, bool overtakes) {
  if (overtakes)
    NoteCached(requests, id);
  else
    Held(id, requests);
  Entry& entry = entries_.at(id);
  entry.state = State::kRunning;
  if (!std::exchange(entry.charged, true)) served_[entry.client] += entry.prompt;
}

void Turns::NoteCached(const Requests& requests, RequestId but_not) {
  for (const auto& [id, request] : requests) {
    if (id == but_not) continue;
    Entry& entry = entries_.at(id);
    served_[entry.client] -= request->num_cached_tokens - std::exchange(entry.cached, request->num_cached_tokens);
  }
}

void Turns::Compare(const WaitingQueue& queue) const {
  for (const auto& [client, account] : queue.clients()) {
    if (account.active != Active(client))
      throw Failure{
          fmt::format("client \"{}\": {} requests counted as active, {} are", client, account.active, Active(client))};
    if (account.served != served_.at(client))
      throw Failure{
          fmt::format("client \"{}\" is counted as served {}, not {}", client, account.served, served_.at(client))};
  }
}

}  // namespace quire::sim
