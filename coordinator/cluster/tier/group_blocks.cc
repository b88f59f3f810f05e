#include "coordinator/cluster/tier/group_blocks.h"

#include <algorithm>
#include <random>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/host_name.h"

namespace quire {

namespace {

/// The shares of a group of one rank. This process takes part in transfers as such a group.
const std::vector<double> kOneRank = {1.0};

BlockRuns RunsOf(const std::vector<int64_t>& flat) {
  BlockRuns runs;
  for (size_t i = 0; i < flat.size(); i += 2) runs.push_back({flat[i], flat[i + 1]});
  return runs;
}

}  // namespace

GroupBlocks::GroupBlocks(WorkerGroup& group, Options options) : group_(group), options_(std::move(options)) {}

/// Returns the ranks' parts of a whole block or state; returns no parts when all parts together are not the whole.
GroupBlocks::Parts GroupBlocks::CutOf(const WholePart RankInfo::*part) const {
  Parts parts{(group_.ranks().front().*part).bytes, {}, {}};
  int64_t given = 0;
  for (const RankInfo& rank : group_.ranks()) {
    parts.given.push_back(RunsOf((rank.*part).given));
    parts.taken.push_back(RunsOf((rank.*part).taken));
    given += BytesOf(parts.given.back());
    if ((rank.*part).bytes != parts.bytes) return {};
  }
  return given == parts.bytes ? parts : Parts{};
}

void GroupBlocks::Begin(EpochId epoch) {
  epoch_ = epoch;
  blocks_ = CutOf(&RankInfo::whole_block);
  states_ = CutOf(&RankInfo::whole_state);
  if (blocks_.bytes == 0) return;
  const std::string host = OwnHostName();
  const bool local = std::ranges::all_of(group_.ranks(), [&](const RankInfo& rank) { return rank.host == host; });
  if (port_ == nullptr || by_network_ == local) OpenPort(!local);
}

/// Opens the port where this process waits for blocks. If ranks are on other hosts (by_network), the port takes the
/// highest free TCP port of the range, because MPI takes the lowest.
void GroupBlocks::OpenPort(bool by_network) {
  by_network_ = by_network;
  port_.reset();
  if (!by_network) {
    port_ = std::make_unique<BlockPort>(options_.local_endpoint, nullptr, options_.wake);
    return;
  }
  const Topology::Transport& transport = options_.topology.transport;
  if (group_.encrypted()) security_ = {MakeCurveKeyPair(), group_.worker_keys()};
  for (int port = transport.mpi_ports[1];; --port) {
    try {
      port_ = std::make_unique<BlockPort>(fmt::format("tcp://{}:{}", transport.bind, port),
                                          group_.encrypted() ? &security_ : nullptr, options_.wake);
      return;
    } catch (const Error&) {
      if (port == transport.mpi_ports[0]) throw;
    }
  }
}

void GroupBlocks::Collect(Transfer transfer, const std::vector<BlockId>& blocks, BlockPort::Blocks memory) {
  port_->Receive(transfer.ticket, std::move(memory), PartsOf(transfer.kind).given);
  GiveBlocksMessage give{.ticket = transfer.ticket,
                         .epoch = BlockPort::kEpoch,
                         .endpoints = {port_->endpoint()},
                         .shares = kOneRank,
                         .moves = {},
                         .blocks = blocks,
                         .on_device = true,
                         .is_state = transfer.kind == StoredKind::kState};
  if (by_network_ && group_.encrypted()) give.keys = {security_.own.public_key};
  group_.SendToEach(give);
}

void GroupBlocks::Announce(Transfer transfer, const std::vector<BlockId>& blocks) {
  TakeBlocksMessage take{.ticket = transfer.ticket, .shares = kOneRank, .blocks = blocks, .on_device = true};
  take.is_state = transfer.kind == StoredKind::kState;
  if (by_network_) take.ports = options_.topology.transport.mpi_ports;
  if (by_network_ && group_.encrypted()) take.keys = {security_.own.public_key};
  for (Rank rank = 0; rank < group_.size(); ++rank) {
    if (!by_network_) take.endpoint = options_.rank_endpoint(rank);
    group_.Send(rank, take);
  }
}

void GroupBlocks::Distribute(Transfer transfer, const std::vector<std::string>& endpoints, BlockPort::Blocks memory) {
  const std::vector<std::string> keys = by_network_ ? group_.worker_keys() : std::vector<std::string>{};
  std::vector<BlockDestination> destinations;
  for (size_t rank = 0; rank < endpoints.size(); ++rank)
    destinations.push_back({endpoints[rank], keys.empty() ? "" : keys[rank], PartsOf(transfer.kind).taken[rank]});
  port_->Send(transfer.ticket, epoch_, std::move(memory), std::move(destinations));
}

void GroupBlocks::Stop(uint64_t ticket) {
  port_->Stop(ticket);
  group_.SendToEach(StopBlocksMessage{ticket});
}

uint64_t GroupBlocks::NewTicket() {
  std::random_device random;
  uint64_t ticket = 0;
  while (ticket == 0) ticket = uint64_t{random()} << 32 | random();
  return ticket;
}

}  // namespace quire
