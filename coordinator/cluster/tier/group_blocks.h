#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/cluster/tier/block_port.h"

namespace quire {

/// Moves whole blocks between this process and a group of any shape: orders each rank to send its part of the blocks,
/// or to take its part. Belongs to the engine's thread.
class GroupBlocks {
 public:
  struct Options {
    const Topology& topology;
    std::string local_endpoint;                      // where this process waits for ranks of this host
    std::function<std::string(Rank)> rank_endpoint;  // where a rank of this host waits for blocks
    std::function<void()> wake;                      // called after the end of a transfer at this process
  };
  GroupBlocks(WorkerGroup& group, Options options);

  /// Prepares for a new epoch, perhaps with other ranks. Throws Error when this process cannot reach the ranks.
  void Begin(EpochId epoch);
  /// Returns the bytes of a whole block; 0: this model's blocks are not cut.
  int64_t block_bytes() const { return block_bytes_; }
  int num_ranks() const { return group_.size(); }

  /// Orders all ranks to send pool blocks into the memory. Each rank reports when it has ended, and TakeEnds reports
  /// this process's end.
  void Collect(uint64_t ticket, const std::vector<BlockId>& blocks, BlockPort::Blocks memory);
  /// Orders all ranks to wait for the contents of pool blocks. Each rank reports its endpoint, and later its end.
  void Announce(uint64_t ticket, const std::vector<BlockId>& blocks);
  /// Sends whole blocks to the ranks, which wait at these endpoints.
  void Distribute(uint64_t ticket, const std::vector<std::string>& endpoints, BlockPort::Blocks memory);
  /// Ends a transfer early, at this process and at the ranks.
  void Stop(uint64_t ticket);
  /// Forgets a transfer whose ranks were replaced.
  void Drop(uint64_t ticket) { port_->Stop(ticket); }
  std::vector<BlockTransferEnd> TakeEnds() {
    return port_ == nullptr ? std::vector<BlockTransferEnd>{} : port_->TakeEnds();
  }

  /// Returns a number for a transfer that no other process can guess.
  static uint64_t NewTicket();

 private:
  void OpenPort(bool by_network);

  WorkerGroup& group_;
  const Options options_;
  EpochId epoch_ = 0;
  bool by_network_ = false;  // some ranks are on other hosts
  int64_t block_bytes_ = 0;
  std::vector<BlockRuns> given_, taken_;  // by rank
  BlockPort::Security security_;
  std::unique_ptr<BlockPort> port_;
};

}  // namespace quire
