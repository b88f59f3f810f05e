#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/channel.h"

namespace quire {

/// Host memory of KV blocks, in the order in which both ends of a transfer name them.
using BlockMemory = std::vector<std::span<std::byte>>;

/// A transfer's end, on either side. `problem` is empty when everything went over.
struct BlockTransferEnd {
  uint64_t ticket = 0;
  int64_t bytes = 0;
  std::string problem;
};

/// KV blocks from a rank of one group to the equal rank of another: host memory to host memory over a Channel, in
/// chunks that are numbered and hashed. A transfer is whole or it has failed; it fails when a chunk is missing or
/// broken, or when nothing moves for kLinkPatience. Both ends belong to one thread, which calls Poll.
inline constexpr auto kLinkPatience = std::chrono::seconds(5);

/// The end that gets blocks.
class BlockReceiver {
 public:
  explicit BlockReceiver(const std::string& endpoint) : channel_(Channel::Bind(endpoint)) {}

  std::string endpoint() const { return channel_.bound_endpoint(); }
  Channel& channel() { return channel_; }

  /// A sender may begin this transfer from now on; it may have fewer blocks, never more. Until the transfer has ended
  /// the memory is written into.
  void Expect(uint64_t ticket, BlockMemory blocks);
  /// Takes over what has arrived, and gives up what waits for too long. Transfers that ended.
  std::vector<BlockTransferEnd> Poll();
  bool idle() const { return expected_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Expected {
    BlockMemory blocks;
    uint64_t next_chunk = 1;
    int64_t bytes = 0;
  };
  std::optional<BlockTransferEnd> Accept(const Frame& frame);

  Channel channel_;
  std::map<uint64_t, Expected> expected_;  // by ticket
  Clock::time_point last_progress_;
};

/// The end that gives them. One transfer goes after the other.
class BlockSender {
 public:
  /// `identity`: what the receivers know this rank by.
  explicit BlockSender(std::string identity) : identity_(std::move(identity)) {}

  /// Until the transfer has ended the memory must stay as it is. No blocks: tells the receiver that nothing will come.
  void Send(uint64_t ticket, const std::string& endpoint, BlockMemory blocks);
  /// Sends what the links take. Transfers that ended: their memory is free.
  std::vector<BlockTransferEnd> Poll();
  bool idle() const { return queue_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Outgoing {
    uint64_t ticket;
    std::string endpoint;
    BlockMemory blocks;
    size_t block = 0, offset = 0;
    uint64_t next_chunk = 1;
    int64_t bytes = 0;
    bool done = false;
  };
  Channel& LinkTo(const std::string& endpoint);
  bool SendChunk(Outgoing& outgoing);

  std::string identity_;
  /// Open links, the one used last at the back. They stay open: what is queued in a link is lost when it is closed.
  std::deque<std::pair<std::string, Channel>> links_;
  std::deque<Outgoing> queue_;
  Clock::time_point last_progress_;
};

}  // namespace quire
