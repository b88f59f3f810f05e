// Engine's functions that move a request from one engine to another.
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

std::vector<BlockId> Engine::Do(const command::Share& c) {
  const auto it = requests_.find(c.id);
  if (it == requests_.end()) return {};
  Tell(c);
  const Request& request = *it->second;
  if (request.sequences.size() > 1 || request.PoolsAllRows()) return {};
  return blocks_.ShareFull(c.ticket, request.sequences.front(), c.max_blocks);
}

std::optional<Departure> Engine::Do(const command::Depart& c) {
  const auto it = requests_.find(c.id);
  if (it == requests_.end()) return std::nullopt;
  Tell(c);
  Departure departure;
  if (!it->second->set_aside) departure.blocks = scheduler_.Depart(*it->second, c, departure.moves);
  departure.request = std::move(it->second);
  departure.request->account = nullptr;
  departure.request->set_aside = false;
  background_.erase(c.id);
  requests_.erase(it);
  return departure;
}

bool Engine::Do(const command::Reserve& c) {
  Tell(c);
  if (c.way == MigrationWay::kHost) return blocks_.host_holdings().Reserve(c.ticket, c.num_blocks);
  return blocks_.ReserveForFull(c.ticket, c.num_blocks);
}

void Engine::Do(const command::ReleaseTicket& c) {
  const bool known =
      blocks_.host_holdings().Find(c.ticket) != nullptr || blocks_.device_holdings().Find(c.ticket) != nullptr;
  if (!known) return;
  Tell(c);
  blocks_.host_holdings().Release(c.ticket);
  blocks_.device_holdings().Release(c.ticket);
}

std::optional<std::string> Engine::Do(const command::Adopt& c) {
  std::unique_ptr<Request>& request = c.request;
  const std::optional<std::string> refusal = ReasonToRefuse(*request);
  if (refusal) return refusal;
  if (request->sink->Abandoned()) {
    request.reset();
    ReleaseTicket(c.ticket);
    return std::nullopt;
  }
  Tell(c);
  for (Sequence& sequence : request->sequences) sequence.id = next_sequence_id_++;
  Request& added = *request;
  const bool is_new = requests_.emplace(added.id, std::move(request)).second;
  QUIRE_CHECK(is_new, "request id {} is in use", added.id);
  RestoreDeadlines(added);
  if (!StaysAside(added)) {
    scheduler_.Arrive(added, c.ticket, c.blocks);
  } else {
    scheduler_.ArriveAside(added);
    blocks_.host_holdings().Release(c.ticket);
    blocks_.device_holdings().Release(c.ticket);
  }
  return std::nullopt;
}

}  // namespace quire
