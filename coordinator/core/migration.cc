// How a request goes from one engine to another: the parts of Scheduler and Engine that serve it.
#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/engine.h"

namespace quire {

int Scheduler::BlocksOf(const Request& request) const {
  return request.swapped_out() ? request.num_swapped_blocks : DistinctBlocks(request.sequences);
}

std::vector<BlockId> Scheduler::Depart(Request& request, uint64_t ticket, int max_blocks,
                                       std::vector<BlockCopyPair>& moves) {
  // What outstanding steps draw for it is dropped, and drawn again where it goes on: draws are keyed by position.
  for (Sequence& sequence : request.sequences) {
    steps_.Forget(sequence);
    blocks_.LeaveWindow(sequence);
    blocks_.Trim(sequence);
  }
  for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) LeaveWorkers(*it);
  request.num_preemptions += static_cast<int>(std::erase(running_, &request));  // where it goes, it waits with those
  queue_.Remove(request);
  queue_.Left(request);
  const int blocks = BlocksOf(request);
  const bool fits = ticket != 0 && blocks > 0 && blocks <= max_blocks;
  if (fits && !request.swapped_out() && blocks <= blocks_.host_pool().num_free()) {
    StepPlan out;
    blocks_.swap().Out(request.sequences, out);
    moves = std::move(out.swap_outs);
    request.num_swapped_blocks = blocks;
  }
  if (fits && request.swapped_out()) {
    Tell(DecisionKind::kDeparted, request, blocks, 0);
    return blocks_.holdings().Hold(ticket, request.sequences);
  }
  for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) blocks_.Free(*it);
  request.num_swapped_blocks = 0;
  request.forked = false;
  Tell(DecisionKind::kDeparted, request, 0, blocks);
  return {};
}

void Scheduler::Arrive(Request& request, uint64_t ticket, std::span<const BlockId> names) {
  const bool has_blocks = !names.empty() && blocks_.holdings().Take(ticket, names, request.sequences);
  for (Sequence& sequence : request.sequences) {
    if (!has_blocks) {
      sequence.host_blocks.clear();
      sequence.num_computed = 0;
      sequence.first_block = 0;
    }
    sequence.contents.root = blocks_.prefixes().Root(request.cache_salt);
    sequence.contents.hashes.clear();  // made with another engine's key
    sequence.contents.Restart();
  }
  request.num_swapped_blocks = has_blocks ? static_cast<int>(names.size()) : 0;
  for (Sequence& sequence : request.sequences) sequence.last_step = 0;  // steps count anew in every engine
  if (!has_blocks) request.forked = false;
  request.told_to_wait = false;
  Tell(DecisionKind::kArrived, request, request.num_swapped_blocks, queue_.size());
  // Whoever was admitted once was charged for its prompt and may hold blocks, even if nothing was computed for it yet.
  if (request.num_preemptions == 0) return queue_.Add(request);
  queue_.Join(request);
  queue_.AddPreempted(request);
}

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
