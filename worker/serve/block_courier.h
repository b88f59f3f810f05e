#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "comm/collective/block_receiver.h"
#include "comm/collective/block_sender.h"
#include "comm/wire/messages.h"
#include "worker/serve/step_executor.h"

namespace quire {

/// Sends KV blocks to workers of other groups, and receives KV blocks from them, on a thread of its own while steps
/// run. The coordinator has reserved the blocks whose memory a transfer uses.
class BlockCourier {
 public:
  struct Self {
    std::string identity;     // unique among all workers that may send blocks to the same receiver
    Rank rank = 0;            // rank in its own group
    EpochId epoch = 0;        // epoch of its own group
    std::string coordinator;  // the coordinator's endpoint; TCP uses the local address that reaches this endpoint
    const WorkerKeys* keys;   // must outlive the courier; null: no encryption
  };
  explicit BlockCourier(Self self);
  ~BlockCourier();
  BlockCourier(const BlockCourier&) = delete;
  BlockCourier& operator=(const BlockCourier&) = delete;

  struct TakeOrder {
    TakeBlocksMessage message;  // the order; the courier moves its `blocks` into the next member
    StepExecutor::LentBlocks blocks;
    std::vector<BlockRuns> runs;  // keyed by sending rank
  };
  struct GiveOrder {
    uint64_t ticket;
    EpochId epoch;  // epoch of the receiving group
    StepExecutor::LentBlocks blocks;
    std::vector<BlockDestination> destinations;
    bool is_state = false;  // see GiveBlocksMessage
  };
  struct StopOrder {
    uint64_t ticket;
  };
  using Order = std::variant<TakeOrder, GiveOrder, StopOrder>;
  void Add(Order order);

  /// Takes the reports for the coordinator that have accumulated since the last call. The function is thread-safe.
  std::vector<BlocksReport> TakeReports();
  /// Returns an eventfd that is readable while reports may be waiting.
  int report_fd() const { return report_fd_; }
  /// Makes report_fd readable on behalf of another object that reports to the coordinator. The function is thread-safe.
  void Wake();

 private:
  /// A state's bytes during a transfer. Offsets in a StateCut count through all of the state's blocks as if they were
  /// one.
  struct StateParcel {
    std::vector<std::byte> bytes;
    BlockMemory blocks;  // the state's blocks
    bool arrives;        // true: the bytes arrive and go into the blocks; false: they were copied from the blocks
  };
  BlockMemory Pack(uint64_t ticket, BlockMemory blocks, bool arrives);
  void Unpack(const BlockTransferEnd& end);
  void Run();
  void Begin(TakeOrder order);
  void Begin(GiveOrder order);
  void Begin(StopOrder order);
  BlockReceiver& ReceiverAt(const TakeBlocksMessage& message);
  BlockReceiver ReceiverOnNetwork(const TakeBlocksMessage& message) const;
  void Wait(int patience_millis);
  void Report(BlocksReport report);
  void ReportEnds(const std::vector<BlockTransferEnd>& ends);

  const Self self_;
  std::map<std::string, BlockReceiver> receivers_;  // by endpoint; "" for TCP; only the courier's thread uses it
  BlockSender sender_;
  std::map<uint64_t, StateParcel> states_;  // by ticket; only the courier's thread uses it
  int order_fd_, report_fd_;                // eventfds
  std::mutex mutex_;                        // guards the next two members
  std::vector<Order> orders_;
  std::vector<BlocksReport> reports_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire
