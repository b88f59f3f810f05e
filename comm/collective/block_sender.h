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

/// A rank that gets blocks.
struct BlockDestination {
  std::string endpoint, key;  // its public key; empty: in clear text
  BlockRuns runs;             // what it gets of every block; none: it waits for nothing
};

/// The end that gives them.
class BlockSender {
 public:
  struct Self {
    std::string identity;              // unlike that of any other worker that may give blocks to the same one
    Rank rank = 0;                     // in its group
    const WorkerKeys* keys = nullptr;  // outlive the sender; null: it has none
  };
  explicit BlockSender(Self self) : self_(std::move(self)) {}

  /// Until the transfer has ended the memory must stay as it is. No blocks: tells the receivers that nothing will come.
  /// `epoch`: of the group that takes. `carrier`: of the device that the memory is of; null: it is the host's.
  void Send(uint64_t ticket, EpochId epoch, BlockMemory blocks, std::vector<BlockDestination> destinations,
            DeviceCarrier* carrier = nullptr);
  /// Ends the transfer, if it has not ended: Poll tells.
  void Stop(uint64_t ticket);
  /// Sends what the links take, within reason. Transfers that ended: their memory is free.
  std::vector<BlockTransferEnd> Poll();
  bool idle() const { return outgoing_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    BlockDestination to;
    int64_t of_block = 0;  // bytes that go of each block
    uint32_t block = 0;
    int64_t offset = 0;         // in what goes of that block
    std::optional<Frame> next;  // made, not yet taken by the link
    uint64_t next_number = 1;
    int64_t next_bytes = 0;
    Clock::time_point last_progress;
    bool done = false;
    DeviceMove move;  // by a DeviceLink, once that was announced
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
  /// By endpoint. They stay open for a while: what is queued in a link is lost when it is closed.
  std::map<std::string, Link> links_;
  std::deque<Outgoing> outgoing_;
};

}  // namespace quire
