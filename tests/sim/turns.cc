#include "tests/sim/turns.h"

#include <optional>
#include <tuple>
#include <utility>

#include "comm/error.h"
#include "coordinator/core/waiting_queue.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

int Turns::Active(const std::string& client) const {
  int active = 0;
  for (const auto& [id, entry] : entries_) active += entry.client == client && entry.state != State::kGone;
  return active;
}

void Turns::Joined(const Request& request) {
  if (Active(request.client) == 0) {  // it was away: level with the others
    double least = -1, most = 0;      // of those that are here, of all
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

RequestId Turns::Next() const {
  std::map<std::string, RequestId> firsts;  // of every client
  std::optional<std::tuple<bool, double, double, RequestId>> best;
  const auto consider = [&](bool waits, double served, RequestId id) {
    const std::tuple key{waits, served, entries_.at(id).arrival, id};
    if (!best || key < *best) best = key;
  };
  for (const auto& [id, entry] : entries_) {
    if (entry.state == State::kPreempted) consider(false, 0, id);
    if (entry.state != State::kWaiting) continue;
    const auto [first, is_new] = firsts.emplace(entry.client, id);
    if (!is_new && entry.rank < entries_.at(first->second).rank) first->second = id;
  }
  for (const auto& [client, id] : firsts) consider(true, served_.at(client), id);
  return best ? std::get<RequestId>(*best) : 0;
}

void Turns::Held(RequestId id, const Requests& requests) {
  NoteCached(requests, id);
  if (Next() != id) throw Failure{fmt::format("request {} is looked at where it is the turn of {}", id, Next())};
}

void Turns::Admitted(RequestId id, const Requests& requests) {
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
