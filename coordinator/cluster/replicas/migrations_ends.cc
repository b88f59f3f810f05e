// The part of Migrations that ends moves before they are complete, and that empties a replica whose workers are lost.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "coordinator/cluster/replicas/migrations.h"

namespace quire {

/// Tells the workers of both sides, once, that nobody needs the blocks. Workers that have finished already ignore the
/// message.
void Migrations::CallOff(const Lock&, uint64_t ticket, BlockTransfer& transfer) {
  if (std::exchange(transfer.called_off, true)) return;
  spdlog::info("blocks of request {} need not go from replica {} to {} any more: called off", transfer.request,
               transfer.from, transfer.to);
  for (const int replica : {transfer.from, transfer.to}) {
    Replica& side = at(replica);
    side.loop().Post([&side, ticket](Engine&) {
      if (side.recovering() || !side.serving()) return;
      side.group().SendToEach(StopBlocksMessage{ticket});
    });
  }
}

/// Cancels transfers of requests that have ended at the source, and of requests in transit whose clients have
/// disconnected.
void Migrations::DropAbandoned(int replica, const Engine& engine) {
  const Lock lock(mutex_);
  for (auto& [ticket, transfer] : transfers_) {
    if (transfer.from != replica || transfer.called_off || transfer.delivered || !transfer.gives) continue;
    const auto request = in_transit_.find(transfer.request);
    const bool taken = request != in_transit_.end();
    if (taken ? !request->second->sink->Abandoned() : engine.requests().contains(transfer.request)) continue;
    taken ? Fail(lock, transfer) : Stay(lock, transfer);
    CallOff(lock, ticket, transfer);
  }
}

/// Lets the request move without blocks, because its blocks will not arrive.
void Migrations::Fail(const Lock& lock, BlockTransfer& transfer) {
  const bool first = !std::exchange(transfer.failed, true);
  if (transfer.delivered || !first) return;
  transfer.delivered = true;
  ++counts_.failed;
  transfer.names.clear();
  const auto taken = in_transit_.find(transfer.request);
  if (taken == in_transit_.end()) return PostBare(transfer);
  Deliver(lock, std::move(taken->second), transfer.to, 0);
}

/// Ends the move: the request stays at the source, or has ended there.
void Migrations::Stay(const Lock&, BlockTransfer& transfer) {
  transfer.failed = transfer.delivered = true;
  moving_.erase(transfer.request);
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
    if (in_transit_.contains(transfer.request)) {
      Fail(lock, transfer);
    } else if (!transfer.failed) {
      Stay(lock, transfer);
      const bool is_there = transfer.take_over && transfer.to != replica;  // ranks that still wait free the blocks
      if (is_there) at(transfer.to).loop().Post([ticket](Engine& there) { there.ReleaseTicket(ticket); });
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
    if (SendElsewhere(lock, departure->request, {replica})) continue;
    departure->request->sink->OnError(RequestError::kWorkersLost, "the workers were lost while this request ran");
    moving_.erase(id);
  }
}

/// Forgets a transfer that has ended on both sides, unless its request has yet to arrive with the blocks.
void Migrations::DropIfOver(const Lock&, uint64_t ticket) {
  const auto it = transfers_.find(ticket);
  if (it == transfers_.end()) return;
  const BlockTransfer& transfer = it->second;
  const bool arrives = !transfer.failed && (!transfer.delivered || in_transit_.contains(transfer.request));
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
