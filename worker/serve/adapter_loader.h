#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/wire/messages.h"
#include "worker/serve/step_executor.h"

namespace quire {

/// Loads LoRA adapters on a rank while it serves. A thread with low priority reads the adapters, so that steps continue
/// meanwhile. The computing thread calls all methods; between its steps, it puts adapters that have been read into use.
class AdapterLoader {
 public:
  /// The loader's thread calls `on_read` when TakeReports has something to return. The references must outlive this
  /// object.
  AdapterLoader(const ModelFiles& base, StepExecutor& executor, std::function<void()> on_read);
  ~AdapterLoader();

  /// Begins to read an adapter. An order without a path drops the adapter of its ticket, whether the adapter waits, is
  /// being read, or is in use.
  void Follow(const AdapterMessage& order);
  /// Puts adapters that have been read into use. Returns the reports for the coordinator: one for each adapter that has
  /// been read, or could not be read, and is still wanted.
  std::vector<AdapterReady> TakeReports();

 private:
  struct Read {
    AdapterMessage order;
    AdapterReady report;
    std::shared_ptr<const AdapterShard> shard;  // null: `report` names a problem
  };
  void Run();
  Read ReadOne(const AdapterMessage& order) const;

  const ModelFiles& base_;
  StepExecutor& executor_;
  const std::function<void()> on_read_;
  std::set<uint64_t> wanted_;         // tickets that have not been withdrawn
  std::map<int, uint64_t> in_use_;    // tickets by the adapters' numbers
  std::atomic<bool> has_read_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<AdapterMessage> orders_;  // guarded by mutex_, like the next two members
  std::vector<Read> read_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
