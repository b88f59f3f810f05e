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

/// Gives KV blocks to workers of other groups and takes theirs, on a thread of its own, while steps are computed. The
/// memory is blocks that the coordinator has set aside for that.
class BlockCourier {
 public:
  struct Self {
    std::string identity;     // unlike that of any other worker that may give blocks to the same one
    Rank rank = 0;            // in its group
    EpochId epoch = 0;        // of its group
    std::string coordinator;  // its endpoint: TCP waits where that is reached from
    const WorkerKeys* keys;   // outlive the courier; null: it has none
  };
  explicit BlockCourier(Self self);
  ~BlockCourier();
  BlockCourier(const BlockCourier&) = delete;
  BlockCourier& operator=(const BlockCourier&) = delete;

  struct TakeOrder {
    TakeBlocksMessage message;  // of which `blocks` is done
    StepExecutor::LentBlocks blocks;
    std::vector<BlockRuns> runs;  // by rank that gives
  };
  struct GiveOrder {
    uint64_t ticket;
    EpochId epoch;  // of the group that takes
    StepExecutor::LentBlocks blocks;
    std::vector<BlockDestination> destinations;
  };
  struct StopOrder {
    uint64_t ticket;
  };
  using Order = std::variant<TakeOrder, GiveOrder, StopOrder>;
  void Add(Order order);

  /// What the coordinator must be told, since the last call.
  std::vector<BlocksReport> TakeReports();
  /// Readable while there may be reports.
  int report_fd() const { return report_fd_; }
  /// Makes report_fd readable, for whoever else has something to tell the coordinator. From any thread.
  void Wake();

 private:
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
  std::map<std::string, BlockReceiver> receivers_;  // by endpoint, "" on TCP; of the thread, like the sender
  BlockSender sender_;
  int order_fd_, report_fd_;  // eventfds
  std::mutex mutex_;          // guards the next two
  std::vector<Order> orders_;
  std::vector<BlocksReport> reports_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire
