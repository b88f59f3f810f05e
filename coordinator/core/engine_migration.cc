// How a request goes from one engine to another.
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/engine.h"

namespace quire {

std::optional<Departure> Engine::Depart(RequestId id, uint64_t ticket, int max_blocks) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return std::nullopt;
  if (observer_ != nullptr) observer_->OnDepart(id, ticket, max_blocks);
  Departure departure;
  departure.host_blocks = scheduler_.Depart(*it->second, ticket, max_blocks, departure.moves);
  departure.request = std::move(it->second);
  departure.request->account = nullptr;
  requests_.erase(it);
  return departure;
}

bool Engine::Reserve(uint64_t ticket, int num_host_blocks) {
  if (observer_ != nullptr) observer_->OnReserve(ticket, num_host_blocks);
  return blocks_.holdings().Reserve(ticket, num_host_blocks);
}

void Engine::ReleaseTicket(uint64_t ticket) {
  if (blocks_.holdings().Find(ticket) == nullptr) return;
  if (observer_ != nullptr) observer_->OnReleaseTicket(ticket);
  blocks_.holdings().Release(ticket);
}

std::optional<std::string> Engine::Adopt(std::unique_ptr<Request>& request, uint64_t ticket,
                                         std::span<const BlockId> host_blocks) {
  const std::optional<std::string> refusal = ReasonToRefuse(*request);
  if (refusal) return refusal;
  if (request->sink->Abandoned()) {
    request.reset();
    ReleaseTicket(ticket);
    return std::nullopt;
  }
  if (observer_ != nullptr) observer_->OnAdopt(*request, ticket, host_blocks);
  for (Sequence& sequence : request->sequences) sequence.id = next_sequence_id_++;
  Request& added = *request;
  const bool is_new = requests_.emplace(added.id, std::move(request)).second;
  QUIRE_CHECK(is_new, "request id {} is in use", added.id);
  RestoreDeadlines(added);
  scheduler_.Arrive(added, ticket, host_blocks);
  return std::nullopt;
}

}  // namespace quire
