// How a request goes from one engine to another: the parts of BlockManager, Scheduler and Engine that serve it.
#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/engine.h"

namespace quire {

void BlockManager::Trim(Sequence& sequence) {
  while (static_cast<int>(sequence.blocks.size()) > BlocksFor(sequence.num_computed)) {
    if (sequence.blocks.back() != kNullBlock) pool_.Release(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
}

bool BlockManager::Reserve(uint64_t ticket, int num_host_blocks) {
  if (num_host_blocks > host_pool_.num_free()) return false;
  Holding holding{ticket, {}};
  while (static_cast<int>(holding.blocks.size()) < num_host_blocks) holding.blocks.push_back(host_pool_.Allocate());
  holdings_.push_back(std::move(holding));
  return true;
}

const BlockManager::Holding* BlockManager::FindHolding(uint64_t ticket) const {
  const auto holding = std::ranges::find(holdings_, ticket, &Holding::ticket);
  return holding == holdings_.end() ? nullptr : &*holding;
}

const std::vector<BlockId>& BlockManager::HoldSwapped(uint64_t ticket, std::span<const Sequence> sequences) {
  Holding holding{ticket, {}};
  for (const Sequence& sequence : sequences) {
    for (const BlockId block : sequence.host_blocks) {
      if (block == kNullBlock) continue;
      if (std::ranges::find(holding.blocks, block) == holding.blocks.end()) {
        holding.blocks.push_back(block);  // the first owner's reference is the holding's now
      } else {
        host_pool_.Release(block);
      }
    }
  }
  holdings_.push_back(std::move(holding));
  return holdings_.back().blocks;
}

bool BlockManager::TakeHolding(uint64_t ticket, std::span<const BlockId> names, std::span<Sequence> sequences) {
  const auto holding = std::ranges::find(holdings_, ticket, &Holding::ticket);
  if (holding == holdings_.end() || holding->blocks.size() < names.size()) return false;
  std::vector<bool> taken(holding->blocks.size(), false);
  for (Sequence& sequence : sequences) {
    for (BlockId& block : sequence.host_blocks) {
      if (block == kNullBlock) continue;
      const auto index = static_cast<size_t>(std::ranges::find(names, block) - names.begin());
      QUIRE_CHECK(index < names.size(), "host block {} did not come along", block);
      block = holding->blocks[index];
      if (taken[index]) host_pool_.AddReference(block);
      taken[index] = true;
    }
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i]) host_pool_.Release(holding->blocks[i]);
  }
  holdings_.erase(holding);
  return true;
}

void BlockManager::ReleaseHolding(uint64_t ticket) {
  std::erase_if(holdings_, [&](const Holding& holding) {
    if (holding.ticket != ticket) return false;
    for (const BlockId block : holding.blocks) host_pool_.Release(block);
    return true;
  });
}

void BlockManager::ReleaseHoldings() {
  while (!holdings_.empty()) ReleaseHolding(holdings_.back().ticket);
}

int Scheduler::BlocksOf(const Request& request) const {
  return request.swapped_out() ? request.num_swapped_blocks : blocks_.DistinctBlocks(request.sequences);
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
    blocks_.SwapOut(request.sequences, out);
    moves = std::move(out.swap_outs);
    request.num_swapped_blocks = blocks;
  }
  if (fits && request.swapped_out()) {
    Tell(DecisionKind::kDeparted, request, blocks, 0);
    return blocks_.HoldSwapped(ticket, request.sequences);
  }
  for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) blocks_.Free(*it);
  request.num_swapped_blocks = 0;
  request.forked = false;
  Tell(DecisionKind::kDeparted, request, 0, blocks);
  return {};
}

void Scheduler::Arrive(Request& request, uint64_t ticket, std::span<const BlockId> names) {
  const bool has_blocks = !names.empty() && blocks_.TakeHolding(ticket, names, request.sequences);
  for (Sequence& sequence : request.sequences) {
    if (!has_blocks) {
      sequence.host_blocks.clear();
      sequence.num_computed = 0;
      sequence.first_block = 0;
    }
    sequence.contents.root = blocks_.SaltRoot(request.cache_salt);
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
  return blocks_.Reserve(ticket, num_host_blocks);
}

void Engine::ReleaseTicket(uint64_t ticket) {
  if (blocks_.FindHolding(ticket) == nullptr) return;
  if (observer_ != nullptr) observer_->OnReleaseTicket(ticket);
  blocks_.ReleaseHolding(ticket);
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
