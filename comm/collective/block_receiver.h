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

/// The receiving end of KV block transfers.
class BlockReceiver {
 public:
  /// `epoch` is the epoch of this rank's group; chunks for another epoch are ignored. With `curve`, a chunk counts only
  /// if the connection has the key of the rank that the chunk names.
  BlockReceiver(const std::string& endpoint, EpochId epoch, std::shared_ptr<CurveServer> curve = nullptr)
      : epoch_(epoch), channel_(Channel::Bind(endpoint, std::move(curve))) {}

  std::string endpoint() const { return channel_.bound_endpoint(); }
  Channel& channel() { return channel_; }

  /// Allows senders to begin the transfer `ticket` from now on. A sender may send fewer blocks than `blocks` has, never
  /// more. runs[r]: which bytes of every block rank r sends. The receiver may write into the blocks until the transfer
  /// has ended. `carrier` belongs to the device that holds `blocks`; null means that `blocks` is host memory.
  void Expect(uint64_t ticket, BlockMemory blocks, std::vector<BlockRuns> runs, DeviceCarrier* carrier = nullptr);
  /// Ends the transfer if it has not ended. Poll reports the end.
  void Stop(uint64_t ticket);
  /// Handles the chunks that have arrived, and ends transfers that have waited too long. Returns the transfers that
  /// have ended.
  std::vector<BlockTransferEnd> Poll();
  bool idle() const { return expected_.empty() && ended_.empty(); }
  /// True while blocks arrive over a DeviceLink. Only Poll notices their arrival.
  bool moving() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Source {  // one sending rank
    BlockRuns runs;
    uint64_t next_chunk = 1;
    uint32_t block = 0;
    int64_t offset = 0;  // bytes of block `block` that have arrived from this rank
    bool done = false;
    DeviceMove move;  // the move over a DeviceLink, once the sender has announced it
    bool moving() const { return move.asked() && !done; }
  };
  struct Expected {
    BlockMemory blocks;
    DeviceCarrier* carrier;
    std::vector<Source> sources;
    std::optional<uint32_t> num_blocks;  // number of blocks that the first chunk stated
    int64_t bytes = 0;
    Clock::time_point begin, last_progress;
    bool moving() const { return std::ranges::any_of(sources, &Source::moving); }
  };
  void Accept(const ReceivedFrame& received);
  /// Copies the chunk into its block. Returns the reason why the chunk cannot be the next one of its source; empty when
  /// it is.
  std::string TakeOver(const BlockChunk& chunk, Expected& expected) const;
  std::string TakeAnnounced(const BlockChunk& chunk, const std::string& peer, Expected& expected);
  void FollowMoves();
  void DropWay(const std::string& peer, const BlockChunk& chunk);
  void End(uint64_t ticket, std::string problem);

  EpochId epoch_;
  Channel channel_;
  std::map<uint64_t, Expected> expected_;  // keyed by ticket
  std::map<std::string, DeviceWay> ways_;  // keyed by peer; a peer that has given up a link opens another link
  std::vector<BlockTransferEnd> ended_;    // transfers that Poll has not reported yet
};

}  // namespace quire
