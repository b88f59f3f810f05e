#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective/block_link.h"
#include "comm/collective/device_way.h"
#include "comm/wire/channel.h"

namespace quire {

/// The end that gets blocks.
class BlockReceiver {
 public:
  /// `epoch`: of this rank's group; chunks of another are passed over. With `curve` a rank's chunks count only if they
  /// come under its key.
  BlockReceiver(const std::string& endpoint, EpochId epoch, std::shared_ptr<CurveServer> curve = nullptr)
      : epoch_(epoch), channel_(Channel::Bind(endpoint, std::move(curve))) {}

  std::string endpoint() const { return channel_.bound_endpoint(); }
  Channel& channel() { return channel_; }

  /// Senders may begin this transfer from now on; it may have fewer blocks, never more. `runs`: by rank that gives,
  /// what it gives of every block. Until the transfer has ended the memory is written into. `carrier`: of the device
  /// that it is of; null: it is the host's.
  void Expect(uint64_t ticket, BlockMemory blocks, std::vector<BlockRuns> runs, DeviceCarrier* carrier = nullptr);
  /// Ends the transfer, if it has not ended: Poll tells.
  void Stop(uint64_t ticket);
  /// Takes over what has arrived, and gives up what waits for too long. Transfers that ended.
  std::vector<BlockTransferEnd> Poll();
  bool idle() const { return expected_.empty() && ended_.empty(); }
  /// Something comes by a DeviceLink, of which only Poll tells.
  bool moving() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Source {  // one rank that gives
    BlockRuns runs;
    uint64_t next_chunk = 1;
    uint32_t block = 0;
    int64_t offset = 0;  // in what it gives of that block
    bool done = false;
    DeviceMove move;  // by a DeviceLink, once that was announced
    bool moving() const { return move.asked() && !done; }
  };
  struct Expected {
    BlockMemory blocks;
    DeviceCarrier* carrier;
    std::vector<Source> sources;
    std::optional<uint32_t> num_blocks;  // as the first chunk said
    int64_t bytes = 0;
    Clock::time_point begin, last_progress;
    bool moving() const { return std::ranges::any_of(sources, &Source::moving); }
  };
  void Accept(const ReceivedFrame& received);
  /// Why the chunk cannot be what comes next from its source; empty: it was taken over.
  std::string TakeOver(const BlockChunk& chunk, Expected& expected) const;
  std::string TakeAnnounced(const BlockChunk& chunk, const std::string& peer, Expected& expected);
  void FollowMoves();
  void DropWay(const std::string& peer, const BlockChunk& chunk);
  void End(uint64_t ticket, std::string problem);

  EpochId epoch_;
  Channel channel_;
  std::map<uint64_t, Expected> expected_;  // by ticket
  std::map<std::string, DeviceWay> ways_;  // by peer, which opens a new link when it has given the old one up
  std::vector<BlockTransferEnd> ended_;    // that Poll has not told of
};

}  // namespace quire
