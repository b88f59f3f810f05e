#include "coordinator/cluster/replicas/migrations.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace quire {

namespace {

/// A request goes on while its way is prepared: room for what each of its sequences may add meanwhile.
constexpr int kBlocksToGrow = 4;

/// At once: a worker's socket queues 64 messages, and every transfer adds one or two.
constexpr size_t kMostTransfers = 16;

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

bool Migrations::CanCarryBlocks(int from, int to) const {
  if (at(from).recovering() || at(to).recovering()) return false;
  const BlockShape a = at(from).block_shape(), b = at(to).block_shape();
  return a.on_this_host && b.on_this_host && a.host_blocks > 0 && b.host_blocks > 0 &&
         a.bytes_per_block == b.bytes_per_block && a.state_blocks == b.state_blocks;
}

void Migrations::Begin(RequestId id, int from, int to, Engine& engine) {
  const auto it = engine.requests().find(id);
  const int blocks = it == engine.requests().end() ? 0 : engine.scheduler().BlocksOf(*it->second);
  if (blocks == 0 || !CanCarryBlocks(from, to)) return GoBare(id, to, engine);
  const Lock lock(mutex_);
  if (transfers_.size() >= kMostTransfers) {  // later, perhaps
    moving_.erase(id);
    return;
  }
  const uint64_t ticket = ++last_ticket_;
  Transfer& transfer = transfers_[ticket];
  transfer.request = id;
  transfer.from = from;
  transfer.to = to;
  transfer.room = blocks + kBlocksToGrow * static_cast<int>(it->second->sequences.size());
  at(to).loop().Post([this, ticket](Engine& destination) { Prepare(ticket, destination); });
}

void Migrations::Prepare(uint64_t ticket, Engine& engine) {
  const Lock lock(mutex_);
  const auto it = transfers_.find(ticket);
  if (it == transfers_.end()) return;
  Transfer& transfer = it->second;
  Replica& to = at(transfer.to);
  if (transfer.failed || to.recovering() || !to.serving() || !engine.Reserve(ticket, transfer.room)) {
    if (!transfer.failed) PostBare(transfer);
    transfers_.erase(it);
    return;
  }
  transfer.endpoints.assign(static_cast<size_t>(to.group().size()), "");
  const std::vector<BlockId>& blocks = engine.blocks().holdings().Find(ticket)->blocks;
  for (Rank rank = 0; rank < to.group().size(); ++rank)
    to.group().Send(rank, TakeBlocksMessage{ticket, to.BlockEndpoint(rank), blocks});
}

void Migrations::Give(uint64_t ticket, Engine& engine) {
  const Lock lock(mutex_);
  const auto it = transfers_.find(ticket);
  if (it == transfers_.end() || it->second.failed) return;
  Transfer& transfer = it->second;
  // Workers that are being replaced have nothing to give.
  const uint64_t keep = at(transfer.from).recovering() ? 0 : ticket;
  std::optional<Departure> departure = engine.Depart(transfer.request, keep, transfer.room);
  transfer.gives = true;
  if (!departure) {  // it has ended meanwhile
    moving_.erase(transfer.request);
    transfer.failed = transfer.delivered = true;
    departure.emplace();
  } else {
    transfer.names = departure->host_blocks;
    in_transit_[transfer.request] = std::move(departure->request);
    if (transfer.names.empty()) Fail(lock, transfer);  // it has grown too much, or there is no room on the host
  }
  // Those who wait at the other end are told, also when nothing comes.
  WorkerGroup& group = at(transfer.from).group();
  for (Rank rank = 0; rank < group.size(); ++rank) {
    group.Send(rank, GiveBlocksMessage{ticket, transfer.endpoints[static_cast<size_t>(rank)], departure->moves,
                                       departure->host_blocks});
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
  // Its workers may not have the grammar; a request waits for that as a new one does.
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

/// The destination's workers cannot be made ready for it.
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
  Transfer& transfer = it->second;
  if (report.state == BlocksReport::kFailed)
    spdlog::warn("blocks of request {} did not go from replica {} to {}: rank {}: {}", transfer.request, transfer.from,
                 transfer.to, rank, report.problem);
  if (replica == transfer.to) {
    OnTaken(lock, report.ticket, transfer, rank, report);
  } else {
    OnGiven(lock, report.ticket, transfer, report);
  }
  DropIfOver(lock, report.ticket);
}

void Migrations::OnTaken(const Lock& lock, uint64_t ticket, Transfer& transfer, Rank rank, const BlocksReport& report) {
  if (report.state == BlocksReport::kReady) {
    transfer.endpoints[static_cast<size_t>(rank)] = report.endpoint;
    if (std::ranges::find(transfer.endpoints, "") != transfer.endpoints.end()) return;
    return at(transfer.from).loop().Post([this, ticket](Engine& source) { Give(ticket, source); });
  }
  transfer.bytes += report.bytes;
  if (report.state == BlocksReport::kFailed) Fail(lock, transfer);
  if (++transfer.takers_ended < static_cast<int>(transfer.endpoints.size())) return;
  transfer.take_over = true;
  counts_.bytes += transfer.bytes;
  if (transfer.failed) {
    at(transfer.to).loop().Post([ticket](Engine& destination) { destination.ReleaseTicket(ticket); });
  } else {
    transfer.delivered = true;
    Deliver(lock, std::move(in_transit_.at(transfer.request)), transfer.to, ticket);
  }
}

void Migrations::OnGiven(const Lock& lock, uint64_t ticket, Transfer& transfer, const BlocksReport& report) {
  if (report.state == BlocksReport::kFailed) Fail(lock, transfer);
  if (++transfer.givers_ended < static_cast<int>(transfer.endpoints.size())) return;
  transfer.give_over = true;
  at(transfer.from).loop().Post([ticket](Engine& source) { source.ReleaseTicket(ticket); });
}

/// The blocks do not come: the request goes on without them.
void Migrations::Fail(const Lock& lock, Transfer& transfer) {
  const bool first = !std::exchange(transfer.failed, true);
  if (transfer.delivered || !first) return;
  transfer.delivered = true;
  ++counts_.failed;
  transfer.names.clear();
  if (transfer.gives) return Deliver(lock, std::move(in_transit_.at(transfer.request)), transfer.to, 0);
  PostBare(transfer);
}

void Migrations::PostBare(const Transfer& transfer) {
  at(transfer.from).loop().Post([this, id = transfer.request, to = transfer.to](Engine& source) {
    GoBare(id, to, source);
  });
}

void Migrations::OnEpochLost(int replica) {
  const Lock lock(mutex_);
  std::vector<uint64_t> tickets;
  for (auto& [ticket, transfer] : transfers_) {
    if (transfer.to != replica && transfer.from != replica) continue;
    tickets.push_back(ticket);
    if (transfer.to == replica) transfer.take_over = true;
    if (transfer.from == replica) transfer.give_over = true;
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
  const Transfer& transfer = it->second;
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

MigrationCounts Migrations::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

}  // namespace quire
