#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/block_runs.h"
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

/// KV blocks from ranks of one group to ranks of another: host memory to host memory over a Channel, in chunks that are
/// numbered and hashed. A transfer is whole or it has failed; it fails when a chunk is missing or broken, when nothing
/// of it moves for kLinkPatience, and when it is not over after kTransferPatience. Transfers go on beside each other.
/// Each end belongs to one thread, which calls Poll.
inline constexpr auto kLinkPatience = std::chrono::seconds(5), kTransferPatience = std::chrono::seconds(60);

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
  /// what it gives of every block. Until the transfer has ended the memory is written into.
  void Expect(uint64_t ticket, BlockMemory blocks, std::vector<BlockRuns> runs);
  /// Ends the transfer, if it has not ended: Poll tells.
  void Stop(uint64_t ticket);
  /// Takes over what has arrived, and gives up what waits for too long. Transfers that ended.
  std::vector<BlockTransferEnd> Poll();
  bool idle() const { return expected_.empty() && ended_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Source {  // one rank that gives
    BlockRuns runs;
    uint64_t next_chunk = 1;
    uint32_t block = 0;
    int64_t offset = 0;  // in what it gives of that block
    bool done = false;
  };
  struct Expected {
    BlockMemory blocks;
    std::vector<Source> sources;
    std::optional<uint32_t> num_blocks;  // as the first chunk said
    int64_t bytes = 0;
    Clock::time_point begin, last_progress;
  };
  void Accept(const ReceivedFrame& received);
  /// Why the chunk cannot be what comes next from its source; empty: it was taken over.
  std::string TakeOver(const BlockChunk& chunk, Expected& expected) const;
  void End(uint64_t ticket, std::string problem);

  EpochId epoch_;
  Channel channel_;
  std::map<uint64_t, Expected> expected_;  // by ticket
  std::vector<BlockTransferEnd> ended_;    // that Poll has not told of
};

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
  /// `epoch`: of the group that takes.
  void Send(uint64_t ticket, EpochId epoch, BlockMemory blocks, std::vector<BlockDestination> destinations);
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
  };
  struct Outgoing {
    uint64_t ticket;
    EpochId epoch;
    BlockMemory blocks;
    std::vector<Stream> streams;
    int64_t bytes;
    Clock::time_point begin;
    std::string problem;
    bool over() const;
  };
  struct Link {
    Channel channel;
    Clock::time_point last_use;
  };
  Channel& LinkTo(const BlockDestination& to);
  void MakeNext(const Outgoing& outgoing, Stream& stream) const;
  bool SendChunk(Outgoing& outgoing, Stream& stream);
  bool Advance(Outgoing& outgoing);
  void GiveUpLate(Outgoing& outgoing);

  Self self_;
  /// By endpoint. They stay open for a while: what is queued in a link is lost when it is closed.
  std::map<std::string, Link> links_;
  std::deque<Outgoing> outgoing_;
};

}  // namespace quire
