#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective/block_link.h"
#include "comm/collective/device_way.h"
#include "comm/wire/channel.h"

namespace quire {

/// A rank that receives blocks.
struct BlockDestination {
  std::string endpoint, key;  // `key` is the receiver's public key; empty: no encryption
  BlockRuns runs;             // bytes of every block that this receiver gets; empty: the receiver gets none
};

/// The sending end of KV block transfers.
class BlockSender {
 public:
  struct Self {
    std::string identity;              // unique among the workers that may send blocks to the same receiver
    Rank rank = 0;                     // rank within its group
    const WorkerKeys* keys = nullptr;  // must outlive the sender; null: no encryption
  };
  explicit BlockSender(Self self) : self_(std::move(self)) {}

  /// Begins the transfer `ticket`. The memory must not change until the transfer has ended. If `blocks` is empty, tells
  /// the receivers that no blocks will come. `epoch`: the epoch of the receiving group. `carrier` belongs to the device
  /// that holds `blocks`; null means that `blocks` is host memory.
  void Send(uint64_t ticket, EpochId epoch, BlockMemory blocks, std::vector<BlockDestination> destinations,
            DeviceCarrier* carrier = nullptr);
  /// Ends the transfer if it has not ended. Poll reports the end.
  void Stop(uint64_t ticket);
  /// Sends as many chunks as the links have room for, at most kChunksAtOnce on each stream. Returns the transfers that
  /// have ended; their memory may change again.
  std::vector<BlockTransferEnd> Poll();
  bool idle() const { return outgoing_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    BlockDestination to;
    int64_t of_block = 0;  // bytes that this stream sends of each block
    uint32_t block = 0;
    int64_t offset = 0;         // bytes of block `block` that were encoded into chunks
    std::optional<Frame> next;  // encoded chunk that waits until the link has room for it
    uint64_t next_number = 1;
    int64_t next_bytes = 0;
    Clock::time_point last_progress;
    bool done = false;
    DeviceMove move;  // the move over a DeviceLink, once announced
  };
  struct Outgoing {
    uint64_t ticket;
    EpochId epoch;
    BlockMemory blocks;
    DeviceCarrier* carrier;
    std::vector<Stream> streams;
    int64_t bytes;
    Clock::time_point begin;
    std::string problem;
    bool over() const;
  };
  struct Link {
    Channel channel;
    Clock::time_point last_use;
    DeviceWay way;
  };
  Link& LinkTo(const BlockDestination& to);
  void MakeNext(const Outgoing& outgoing, Stream& stream) const;
  bool SendChunk(Outgoing& outgoing, Stream& stream);
  bool Announce(const Outgoing& outgoing, Stream& stream);
  bool FollowMove(Outgoing& outgoing, Stream& stream);
  void DropUnfinishedMoves(const Outgoing& outgoing);
  bool Advance(Outgoing& outgoing);
  void GiveUpLate(Outgoing& outgoing);

  Self self_;
  /// Keyed by endpoint. Links stay open for a while after their last transfer, because closing a link drops its queued
  /// chunks.
  std::map<std::string, Link> links_;
  std::deque<Outgoing> outgoing_;
};

}  // namespace quire
