// How moves end otherwise than they should.
#include <algorithm>
#include <utility>

#include "coordinator/cluster/replicas/migrations.h"

namespace quire {

/// Tells the workers of both sides, once, that nobody needs the blocks any more. Those that have ended do not mind.
void Migrations::CallOff(const Lock&, uint64_t ticket, BlockTransfer& transfer) {
  if (std::exchange(transfer.called_off, true)) return;
  for (const int replica : {transfer.from, transfer.to}) {
    Replica& side = at(replica);
    side.loop().Post([&side, ticket](Engine&) {
      if (side.recovering() || !side.serving()) return;
      for (Rank rank = 0; rank < side.group().size(); ++rank) side.group().Send(rank, StopBlocksMessage{ticket});
    });
  }
}

/// Requests whose clients are gone while their blocks are on the way.
void Migrations::DropAbandoned() {
  const Lock lock(mutex_);
  for (auto& [ticket, transfer] : transfers_) {
    const auto request = in_transit_.find(transfer.request);
    if (transfer.called_off || transfer.delivered || request == in_transit_.end()) continue;
    if (!request->second->sink->Abandoned()) continue;
    Fail(lock, transfer);
    CallOff(lock, ticket, transfer);
  }
}

/// The blocks do not come: the request goes on without them.
void Migrations::Fail(const Lock& lock, BlockTransfer& transfer) {
  const bool first = !std::exchange(transfer.failed, true);
  if (transfer.delivered || !first) return;
  transfer.delivered = true;
  ++counts_.failed;
  transfer.names.clear();
  if (transfer.gives) return Deliver(lock, std::move(in_transit_.at(transfer.request)), transfer.to, 0);
  PostBare(transfer);
}

void Migrations::PostBare(const BlockTransfer& transfer) {
  at(transfer.from).loop().Post([this, id = transfer.request, to = transfer.to](Engine& source) {
    GoBare(id, to, source);
  });
}

void Migrations::OnEpochLost(int replica) {
  const Lock lock(mutex_);
  std::erase_if(by_host_, [&](const auto& pair) { return pair.first == replica || pair.second == replica; });
  std::vector<uint64_t> tickets;
  for (auto& [ticket, transfer] : transfers_) {
    if (transfer.to != replica && transfer.from != replica) continue;
    tickets.push_back(ticket);
    if (transfer.to == replica) transfer.take_over = true;
    if (transfer.from == replica) transfer.give_over = true;
    CallOff(lock, ticket, transfer);
    if (transfer.gives) {
      Fail(lock, transfer);
    } else if (!transfer.failed) {  // it stays where it is
      transfer.failed = transfer.delivered = true;
      moving_.erase(transfer.request);
    }
  }
  for (const uint64_t ticket : tickets) DropIfOver(lock, ticket);
}

void Migrations::Empty(int replica, Engine& engine) {
  OnEpochLost(replica);
  const Lock lock(mutex_);
  std::vector<RequestId> ids;
  for (const auto& [id, request] : engine.requests()) ids.push_back(id);
  const bool others = std::ranges::any_of(replicas_, [](const Replica* other) { return other->serving(); });
  for (const RequestId id : ids) {
    if (!others || cleared_) return;
    std::optional<Departure> departure = engine.Depart(id, 0, 0);
    moving_.insert(id);
    if (!SendElsewhere(lock, departure->request, {replica}))
      departure->request->sink->OnError(RequestError::kWorkersLost, "the workers were lost while this request ran");
  }
}

/// Forgets a transfer that is over on all sides.
void Migrations::DropIfOver(const Lock&, uint64_t ticket) {
  const auto it = transfers_.find(ticket);
  if (it == transfers_.end()) return;
  const BlockTransfer& transfer = it->second;
  const bool arrives = !transfer.failed && in_transit_.contains(transfer.request);
  if (transfer.take_over && (transfer.give_over || !transfer.gives) && !arrives) transfers_.erase(it);
}

void Migrations::Clear() {
  std::map<RequestId, std::unique_ptr<Request>> dropped;
  const Lock lock(mutex_);
  cleared_ = true;
  transfers_.clear();
  dropped.swap(in_transit_);
}

}  // namespace quire
