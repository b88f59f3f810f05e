#include "coordinator/cluster/replicas/migrations.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>
#include <utility>

#include "coordinator/log/log.h"

namespace quire {

namespace {

/// Blocks that are reserved in addition for each sequence of a request, because the request grows while its move is
/// prepared.
constexpr int kBlocksToGrow = 4;

/// The most transfers at the same time. A worker's socket queues 64 messages, and every transfer adds one to three.
constexpr size_t kMostTransfers = 16;

/// After a failed transfer, no further transfer between the two replicas is tried for this many seconds, because each
/// attempt may wait for seconds in vain.
constexpr double kRestOfBrokenWay = 10;

int64_t KnownTokens(const Request& request) {
  int64_t tokens = 0;
  for (const Sequence& sequence : request.sequences) tokens += sequence.finished ? 0 : sequence.num_tokens();
  return tokens;
}

}  // namespace

void Migrations::Move(RequestId id, int from, int to) {
  {
    const Lock lock(mutex_);
    if (cleared_ || from == to || !moving_.insert(id).second) return;
  }
  at(from).loop().Post([=, this](Engine& engine) { Begin(id, from, to, engine); });
}

bool Migrations::moving(RequestId id) const {
  const Lock lock(mutex_);
  return moving_.contains(id);
}

void Migrations::Begin(RequestId id, int from, int to, Engine& engine) {
  const auto it = engine.requests().find(id);
  const int blocks = it == engine.requests().end() ? 0 : engine.scheduler().BlocksOf(*it->second);
  BlockTransfer transfer;
  transfer.request = id;
  transfer.from = from;
  transfer.to = to;
  transfer.source = at(from).block_shape();
  transfer.target = at(to).block_shape();
  Lock lock(mutex_);
  const auto way = blocks == 0 ? std::nullopt : WayOf(lock, *it->second, transfer);
  if (!way) {
    lock.unlock();
    return GoBare(id, to, engine);
  }
  if (transfers_.size() >= kMostTransfers) {  // the caller may try again later
    moving_.erase(id);
    return;
  }
  const uint64_t ticket = NewTicket();
  transfer.way = *way;
  transfer.room = blocks + kBlocksToGrow * static_cast<int>(it->second->sequences.size());
  transfers_[ticket] = std::move(transfer);
  at(to).loop().Post([this, ticket](Engine& destination) { Prepare(ticket, destination); });
}

void Migrations::Prepare(uint64_t ticket, Engine& engine) {
  const Lock lock(mutex_);
  const auto it = transfers_.find(ticket);
  if (it == transfers_.end()) return;
  BlockTransfer& transfer = it->second;
  Replica& to = at(transfer.to);
  const int ranks = transfer.target.cut.num_ranks();
  const bool ready = !transfer.failed && !to.recovering() && to.serving() && to.group().size() == ranks;
  bool reserved = ready && engine.Reserve(ticket, transfer.room, transfer.way);
  if (ready && !reserved && transfer.way == MigrationWay::kDevice &&
      CanGo(MigrationWay::kHost, transfer.source, transfer.target)) {
    transfer.way = MigrationWay::kHost;
    reserved = engine.Reserve(ticket, transfer.room, transfer.way);
  }
  if (!reserved) {
    if (!transfer.failed) PostBare(transfer);
    transfers_.erase(it);
    return;
  }
  transfer.endpoints.assign(static_cast<size_t>(ranks), "");
  transfer.to_epoch = engine.epoch();
  const bool on_device = transfer.way == MigrationWay::kDevice;
  const BlockManager& manager = engine.blocks();
  TakeBlocksMessage take{
      .ticket = ticket,
      .shares = transfer.source.cut.shares,
      .stage_layers = transfer.source.cut.stage_layers,
      .blocks = (on_device ? manager.device_holdings() : manager.host_holdings()).Find(ticket)->blocks,
      .on_device = on_device};
  if (transfer.by_network()) {
    take.ports = transfer.target.ports;
    take.keys = transfer.source.keys;
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (!transfer.by_network()) take.endpoint = to.BlockEndpoint(rank);
    to.group().Send(rank, take);
  }
}

void Migrations::GoBare(RequestId id, int to, Engine& engine) {
  const Lock lock(mutex_);
  std::optional<Departure> departure = engine.Depart(id, 0, 0);
  if (!departure || cleared_) {
    moving_.erase(id);
    return;
  }
  Deliver(lock, std::move(departure->request), to, 0);
}

void Migrations::Deliver(const Lock&, std::unique_ptr<Request> request, int to, uint64_t ticket) {
  const RequestId id = request->id;
  const int64_t tokens = ticket == 0 ? KnownTokens(*request) : 0;
  const std::string client = request->client;
  const GrammarSource grammar = request->sampling.grammar;
  in_transit_[id] = std::move(request);
  // The target's workers may lack the request's grammar. Then the request waits until they have compiled it, as a new
  // request does.
  at(to).PostCall(tokens, client, grammar,
                  {.submit = [=, this](Engine& engine) { Arrive(id, to, ticket, engine); },
                   .refuse = [=, this](int, const std::string& reason) { Refuse(id, to, ticket, reason); },
                   .abandoned =
                       [=, this] {
                         const Lock lock(mutex_);
                         return !in_transit_.contains(id);
                       },
                   .requests = {id}});
}

/// Ends a request in transit to replica `to` with an error, because the workers there cannot compile its grammar or
/// have no memory for it.
void Migrations::Refuse(RequestId id, int to, uint64_t ticket, const std::string& reason) {
  const Lock lock(mutex_);
  const auto it = in_transit_.find(id);
  if (it == in_transit_.end()) return;
  it->second->sink->OnError(RequestError::kNoRoom, reason);
  in_transit_.erase(it);
  moving_.erase(id);
  at(to).loop().Post([ticket](Engine& destination) { destination.ReleaseTicket(ticket); });
  DropIfOver(lock, ticket);
}

void Migrations::Arrive(RequestId id, int to, uint64_t ticket, Engine& engine) {
  const Lock lock(mutex_);
  const auto it = in_transit_.find(id);
  if (it == in_transit_.end()) return;
  std::unique_ptr<Request> request = std::move(it->second);
  in_transit_.erase(it);
  const auto transfer = transfers_.find(ticket);
  const std::vector<BlockId> names = transfer == transfers_.end() ? std::vector<BlockId>{} : transfer->second.names;
  request->last_moved_seconds = EngineLoop::Now();
  const std::optional<std::string> refusal = engine.Adopt(request, ticket, names);
  if (refusal) {
    engine.ReleaseTicket(ticket);
    if (!SendElsewhere(lock, request, {to})) request->sink->OnError(RequestError::kWorkersLost, *refusal);
  }
  ++(names.empty() ? counts_.bare : counts_.with_blocks);
  if (!in_transit_.contains(id)) moving_.erase(id);
  DropIfOver(lock, ticket);
}

bool Migrations::SendElsewhere(const Lock& lock, std::unique_ptr<Request>& request, const std::set<int>& except) {
  std::vector<ReplicaView> views;
  for (const Replica* replica : replicas_) views.push_back(replica->view());
  for (const int replica : except) views[static_cast<size_t>(replica)].serving = false;
  const auto chosen = ChooseReplica(views, {0, 1});
  if (chosen) Deliver(lock, std::move(request), *chosen, 0);
  return chosen.has_value();
}

void Migrations::OnReport(int replica, Rank rank, const BlocksReport& report) {
  const Lock lock(mutex_);
  const auto it = transfers_.find(report.ticket);
  if (it == transfers_.end()) return;
  BlockTransfer& transfer = it->second;
  if (report.state == BlocksReport::kFailed && !transfer.called_off) {
    const LogField of_rank("rank", int64_t{rank});
    spdlog::warn("blocks of request {} did not go from replica {} to {}: rank {}: {}", transfer.request, transfer.from,
                 transfer.to, rank, report.problem);
  }
  if (replica == transfer.to) {
    OnTaken(lock, report.ticket, transfer, rank, report);
  } else {
    OnGiven(lock, report.ticket, transfer, report);
  }
  DropIfOver(lock, report.ticket);
}

/// Gives up a transfer in which a rank on either side has failed.
void Migrations::BreakOff(const Lock& lock, uint64_t ticket, BlockTransfer& transfer) {
  const bool by_itself = !transfer.called_off;
  const std::pair<int, int> pair = std::minmax(transfer.from, transfer.to);
  if (by_itself) broken_until_[pair] = EngineLoop::Now() + kRestOfBrokenWay;
  // GPUs that failed to reach each other are not tried again until one of the replicas has new workers.
  const bool by_carriers =
      transfer.way == MigrationWay::kDevice && transfer.source.compute.backend == BackendKind::kCuda;
  if (by_itself && by_carriers) by_host_.insert(pair);
  Fail(lock, transfer);
  CallOff(lock, ticket, transfer);
}

void Migrations::OnTaken(const Lock& lock, uint64_t ticket, BlockTransfer& transfer, Rank rank,
                         const BlocksReport& report) {
  if (report.state == BlocksReport::kReady) {
    transfer.endpoints[static_cast<size_t>(rank)] = report.endpoint;
    if (std::ranges::find(transfer.endpoints, "") != transfer.endpoints.end()) return;
    return at(transfer.from).loop().Post([this, ticket](Engine& source) { Give(ticket, source); });
  }
  transfer.bytes += report.bytes;
  if (report.state == BlocksReport::kFailed) {
    BreakOff(lock, ticket, transfer);
  }
  if (++transfer.takers_ended < static_cast<int>(transfer.endpoints.size())) return;
  transfer.take_over = true;
  counts_.bytes += transfer.bytes;
  if (transfer.failed) {
    at(transfer.to).loop().Post([ticket](Engine& destination) { destination.ReleaseTicket(ticket); });
    return;
  }
  counts_.seconds += EngineLoop::Now() - transfer.begin_seconds;
  if (transfer.way == MigrationWay::kDevice)
    return at(transfer.from).loop().Post([this, ticket, to = transfer.to](Engine& source) {
      Follow(ticket, to, source);
    });
  transfer.delivered = true;
  Deliver(lock, std::move(in_transit_.at(transfer.request)), transfer.to, ticket);
}

void Migrations::OnGiven(const Lock& lock, uint64_t ticket, BlockTransfer& transfer, const BlocksReport& report) {
  if (report.state == BlocksReport::kFailed) {
    BreakOff(lock, ticket, transfer);
  }
  if (++transfer.givers_ended < transfer.givers) return;
  transfer.give_over = true;
  at(transfer.from).loop().Post([ticket](Engine& source) { source.ReleaseTicket(ticket); });
}

/// Returns an unused ticket. Tickets are random, so that groups without keys cannot be attacked by guessing a ticket.
uint64_t Migrations::NewTicket() {
  uint64_t ticket = 0;
  std::random_device random;
  while (ticket == 0 || transfers_.contains(ticket)) ticket = uint64_t{random()} << 32 | random();
  return ticket;
}

MigrationCounts Migrations::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

}  // namespace quire
