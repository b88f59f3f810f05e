#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/collective/block_link.h"
#include "comm/wire/messages.h"

namespace quire {

/// Gives KV blocks to workers of other groups and takes theirs, on a thread of its own, while steps are computed. The
/// memory is the host's blocks that the coordinator has set aside for that.
class BlockCourier {
 public:
  /// `identity`: unlike that of any other worker that may give blocks to the same one.
  explicit BlockCourier(std::string identity);
  ~BlockCourier();
  BlockCourier(const BlockCourier&) = delete;
  BlockCourier& operator=(const BlockCourier&) = delete;

  /// `endpoint`: where this rank waits for blocks; the same in every call.
  void Take(uint64_t ticket, std::string endpoint, BlockMemory blocks);
  void Give(uint64_t ticket, std::string endpoint, BlockMemory blocks);

  /// What the coordinator must be told, since the last call.
  std::vector<BlocksReport> TakeReports();
  /// Readable while there may be reports.
  int report_fd() const { return report_fd_; }
  /// Makes report_fd readable, for whoever else has something to tell the coordinator. From any thread.
  void Wake();

 private:
  struct Order {
    bool take;
    uint64_t ticket;
    std::string endpoint;
    BlockMemory blocks;
  };
  void Add(Order order);
  void Run();
  void Begin(Order order);
  void Report(BlocksReport report);
  void ReportEnds(const std::vector<BlockTransferEnd>& ends);

  std::optional<BlockReceiver> receiver_;  // of the thread, like the sender
  BlockSender sender_;
  int order_fd_, report_fd_;  // eventfds
  std::mutex mutex_;          // guards the next two
  std::vector<Order> orders_;
  std::vector<BlocksReport> reports_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire
