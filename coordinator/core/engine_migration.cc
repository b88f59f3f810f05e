// How a request goes from one engine to another.
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/engine.h"

namespace quire {

std::optional<Departure> Engine::Do(const command::Depart& c) {
  const auto it = requests_.find(c.id);
  if (it == requests_.end()) return std::nullopt;
  Tell(c);
  Departure departure;
  departure.host_blocks = scheduler_.Depart(*it->second, c.ticket, c.max_blocks, departure.moves);
  departure.request = std::move(it->second);
  departure.request->account = nullptr;
  requests_.erase(it);
  return departure;
}

bool Engine::Do(const command::Reserve& c) {
  Tell(c);
  return blocks_.holdings().Reserve(c.ticket, c.num_host_blocks);
}

void Engine::Do(const command::ReleaseTicket& c) {
  if (blocks_.holdings().Find(c.ticket) == nullptr) return;
  Tell(c);
  blocks_.holdings().Release(c.ticket);
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
  scheduler_.Arrive(added, c.ticket, c.host_blocks);
  return std::nullopt;
}

}  // namespace quire
