// The part of Migrations that decides whether and how a request's blocks move with the request, and that makes the
// source send the blocks.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "coordinator/cluster/replicas/migrations.h"

namespace quire {

/// Returns the way in which the request's blocks move; nullopt when they stay. Logs each reason only once.
std::optional<MigrationWay> Migrations::WayOf(const Lock&, const Request& request, const BlockTransfer& transfer) {
  const int from = transfer.from, to = transfer.to;
  const BlockShape &source = transfer.source, &target = transfer.target;
  if (at(from).recovering() || at(to).recovering()) return std::nullopt;
  const auto broken = broken_until_.find(std::minmax(from, to));
  if (broken != broken_until_.end() && EngineLoop::Now() < broken->second) return std::nullopt;
  const std::string reason = WhyBlocksStay(source, target);
  if (!reason.empty()) {
    if (told_.insert(fmt::format("{} {} {}", from, to, reason)).second)
      spdlog::info("requests that go from replica {} to {} are computed again there: blocks stay, because {}", from, to,
                   reason);
    return std::nullopt;
  }
  const bool by_host = CanGo(MigrationWay::kHost, source, target);
  const bool by_device = CanGo(MigrationWay::kDevice, source, target) && !by_host_.contains(std::minmax(from, to));
  // Several choices of a request share their last, partly filled block only if the blocks move through host memory.
  const bool whole_by_host = request.swapped_out() || request.sequences.size() > 1;
  if (by_device && !(by_host && whole_by_host)) return MigrationWay::kDevice;
  return by_host ? std::optional(MigrationWay::kHost) : std::nullopt;
}

void Migrations::Give(uint64_t ticket, Engine& engine) {
  const Lock lock(mutex_);
  const auto it = transfers_.find(ticket);
  if (it == transfers_.end() || it->second.failed) return;
  BlockTransfer& transfer = it->second;
  // While the source's workers are being replaced they have no blocks to send, and some may not run yet.
  const bool lost = at(transfer.from).recovering();
  std::vector<BlockCopyPair> moves;
  transfer.gives = true;
  if (transfer.way == MigrationWay::kDevice) {
    if (!lost) transfer.names = engine.Share(transfer.request, ticket, transfer.room);
    if (transfer.names.empty()) {
      transfer.give_over = true;
      const bool stays = lost || !engine.requests().contains(transfer.request);
      stays ? Stay(lock, transfer) : Fail(lock, transfer);
      return CallOff(lock, ticket, transfer);
    }
  } else {
    moves = Take(lock, lost ? 0 : ticket, transfer, engine);
  }
  if (lost) return CallOff(lock, ticket, transfer);
  // The source's ranks get the message even if they have nothing to send, because the target's ranks wait for them.
  WorkerGroup& group = at(transfer.from).group();
  transfer.givers = group.size();
  transfer.begin_seconds = EngineLoop::Now();
  GiveBlocksMessage give{.ticket = ticket,
                         .epoch = transfer.to_epoch,
                         .endpoints = transfer.endpoints,
                         .shares = transfer.target.cut.shares,
                         .stage_layers = transfer.target.cut.stage_layers,
                         .moves = std::move(moves),
                         .blocks = transfer.names,
                         .on_device = transfer.way == MigrationWay::kDevice};
  if (transfer.by_network()) give.keys = transfer.target.keys;
  group.SendToEach(give);
}

/// For MigrationWay::kHost: takes the request out of its engine; if `keep` is not 0, the engine holds the request's
/// blocks under that ticket. Returns the copies from device to host that the workers must make.
std::vector<BlockCopyPair> Migrations::Take(const Lock& lock, uint64_t keep, BlockTransfer& transfer, Engine& engine) {
  std::optional<Departure> departure = engine.Depart(transfer.request, keep, transfer.room);
  if (!departure) {
    Stay(lock, transfer);
    return {};
  }
  transfer.names = departure->blocks;
  in_transit_[transfer.request] = std::move(departure->request);
  if (transfer.names.empty()) Fail(lock, transfer);  // the request has grown too much, or the host lacks free blocks
  return std::move(departure->moves);
}

/// For MigrationWay::kDevice: takes the request out of its engine, and delivers it to the target, where its blocks have
/// arrived.
void Migrations::Follow(uint64_t ticket, int to, Engine& engine) {
  const Lock lock(mutex_);
  const auto it = transfers_.find(ticket);
  std::optional<Departure> departure;
  if (it != transfers_.end() && !it->second.failed) {
    BlockTransfer& transfer = it->second;
    departure = engine.Depart(transfer.request, 0, 0, static_cast<int>(transfer.names.size()));
    transfer.delivered = true;
    if (departure) return Deliver(lock, std::move(departure->request), to, ticket);
    Stay(lock, transfer);
  }
  at(to).loop().Post([ticket](Engine& destination) { destination.ReleaseTicket(ticket); });
  DropIfOver(lock, ticket);
}

}  // namespace quire
