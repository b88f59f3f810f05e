#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "comm/collective/block_receiver.h"
#include "comm/collective/block_sender.h"

namespace quire {

/// This process's side of transfers of whole blocks from and to the ranks of a group. In these transfers this process
/// acts as a group of one rank. A separate thread moves the bytes.
class BlockPort {
 public:
  struct Security {
    CurveKeyPair own;                // this port's keys
    std::vector<std::string> ranks;  // public keys of the group's ranks
  };
  /// Waits for blocks at the endpoint (ipc:// or tcp://). `wake` is called on the port's thread after a transfer ends.
  /// `security` may be null: no encryption. Throws Error when the endpoint cannot be bound.
  BlockPort(const std::string& endpoint, const Security* security, std::function<void()> wake);
  ~BlockPort();
  BlockPort(const BlockPort&) = delete;
  BlockPort& operator=(const BlockPort&) = delete;

  /// The epoch of this process. The ranks' GiveBlocks messages must name it.
  static constexpr EpochId kEpoch = 1;
  const std::string& endpoint() const { return endpoint_; }

  /// The memory of whole blocks, and the object that owns the memory until the transfer has ended.
  struct Blocks {
    BlockMemory memory;
    std::shared_ptr<void> owner;
  };
  /// Receives blocks under the ticket. runs[r] says which bytes of each block come from rank r.
  void Receive(uint64_t ticket, Blocks blocks, std::vector<BlockRuns> runs);
  /// Sends blocks under the ticket to ranks of the group with this epoch.
  void Send(uint64_t ticket, EpochId epoch, Blocks blocks, std::vector<BlockDestination> destinations);
  /// Ends a transfer early.
  void Stop(uint64_t ticket);
  /// Returns the transfers that ended since the last call, in either direction.
  std::vector<BlockTransferEnd> TakeEnds();

 private:
  struct ReceiveOrder {
    uint64_t ticket;
    Blocks blocks;
    std::vector<BlockRuns> runs;
  };
  struct SendOrder {
    uint64_t ticket;
    EpochId epoch;
    Blocks blocks;
    std::vector<BlockDestination> destinations;
  };
  struct StopOrder {
    uint64_t ticket;
  };
  using Order = std::variant<ReceiveOrder, SendOrder, StopOrder>;
  void Add(Order order);
  void Run();
  void Begin(ReceiveOrder order);
  void Begin(SendOrder order);
  void Begin(StopOrder order);
  void Note(const std::vector<BlockTransferEnd>& ends);

  const std::function<void()> wake_;
  WorkerKeys keys_;
  BlockReceiver receiver_;
  BlockSender sender_;
  const std::string endpoint_;
  std::map<uint64_t, std::shared_ptr<void>> owners_;  // memory owners by ticket; only the port's thread uses it
  int order_fd_;                                      // an eventfd
  std::mutex mutex_;                                  // guards the next two members
  std::vector<Order> orders_;
  std::vector<BlockTransferEnd> ends_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire
