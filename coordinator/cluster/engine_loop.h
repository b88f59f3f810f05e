#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/cluster/worker_group.h"
#include "coordinator/core/engine.h"

namespace quire {

/// The engine's thread: drain the inbox, plan and send as far ahead as the engine does, await the oldest result,
/// commit, deliver, again.
class EngineLoop {
 public:
  /// on_failure is called on the engine's thread, once, when the worker group is lost; every request has been answered
  /// with an error by then.
  EngineLoop(Engine& engine, WorkerGroup& group, std::function<void(const std::string&)> on_failure);
  /// Stops the thread; what still runs is dropped.
  ~EngineLoop();

  /// Ends the thread and drops every request and task, so that nothing of theirs outlives what they refer to.
  void Stop();

  /// Runs `task` on the engine's thread, between one step's delivery and the next step's planning. From any thread.
  void Post(std::function<void(Engine&)> task);

  /// Seconds on the engine's clock: what Request::arrival_seconds is on.
  static double Now();

  /// False once the worker group is lost.
  bool serving() const { return serving_.load(); }

 private:
  void Run();
  void RunUntilStopped();
  void DrainInbox();

  Engine& engine_;
  WorkerGroup& group_;
  std::function<void(const std::string&)> on_failure_;
  std::mutex mutex_;
  std::vector<std::function<void(Engine&)>> inbox_;  // guarded by mutex_
  int wake_fd_;                                      // an eventfd: readable while the inbox may hold something
  std::atomic<bool> stopping_{false}, serving_{true};
  std::thread thread_;
};

}  // namespace quire
