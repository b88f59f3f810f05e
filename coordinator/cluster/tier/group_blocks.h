#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/cluster/tier/block_port.h"
#include "coordinator/kv_disk/stored_block.h"

namespace quire {

/// The whole blocks of a group of any shape, and the whole states of its sequences. Orders the group's ranks to send
/// their parts to this process, or to get their parts from this process. Only the engine's thread may use it.
class GroupBlocks {
 public:
  struct Options {
    const Topology& topology;
    std::string local_endpoint;                      // endpoint where this process waits for ranks of this host
    std::function<std::string(Rank)> rank_endpoint;  // endpoint where a rank of this host waits for blocks
    std::function<void()> wake;                      // called after this process's side of a transfer ends
  };
  GroupBlocks(WorkerGroup& group, Options options);

  /// Prepares for a new epoch, which may have other ranks. Throws Error when this process cannot reach the ranks.
  void Begin(EpochId epoch);
  /// Returns the bytes of a whole block, or of a whole state; 0 if the ranks' parts of it do not add up to a whole.
  int64_t bytes_of(StoredKind kind) const { return PartsOf(kind).bytes; }
  int num_ranks() const { return group_.size(); }

  /// A transfer of whole blocks, or of one state, which is stored in pool blocks.
  struct Transfer {
    uint64_t ticket = 0;
    StoredKind kind = StoredKind::kBlock;
  };
  /// Orders all ranks to send pool blocks into the memory. Each rank reports the end of its part, and TakeEnds reports
  /// the end at this process.
  void Collect(Transfer transfer, const std::vector<BlockId>& blocks, BlockPort::Blocks memory);
  /// Orders all ranks to wait for the contents of pool blocks. Each rank reports its endpoint, and
  /// later the end of its part.
  void Announce(Transfer transfer, const std::vector<BlockId>& blocks);
  /// Sends whole blocks, or one state, to the ranks, which wait at these endpoints.
  void Distribute(Transfer transfer, const std::vector<std::string>& endpoints, BlockPort::Blocks memory);
  /// Ends a transfer early, at this process and at the ranks.
  void Stop(uint64_t ticket);
  /// Forgets a transfer whose ranks have been replaced.
  void Drop(uint64_t ticket) { port_->Stop(ticket); }
  std::vector<BlockTransferEnd> TakeEnds() {
    return port_ == nullptr ? std::vector<BlockTransferEnd>{} : port_->TakeEnds();
  }

  /// Returns a random number for a transfer, that no other process can predict.
  static uint64_t NewTicket();

 private:
  void OpenPort(bool by_network);

  WorkerGroup& group_;
  const Options options_;
  EpochId epoch_ = 0;
  bool by_network_ = false;  // some ranks are on other hosts
  /// The division of a whole block, or of a whole state, among the ranks.
  struct Parts {
    int64_t bytes = 0;                    // bytes of the whole; 0: the ranks' parts form no whole
    std::vector<BlockRuns> given, taken;  // runs of each rank, by rank
  };
  const Parts& PartsOf(StoredKind kind) const { return kind == StoredKind::kBlock ? blocks_ : states_; }
  Parts CutOf(const WholePart RankInfo::*part) const;

  Parts blocks_, states_;
  BlockPort::Security security_;
  std::unique_ptr<BlockPort> port_;
};

}  // namespace quire
