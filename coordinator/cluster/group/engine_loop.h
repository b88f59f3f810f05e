#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/cluster/group/engine_loop_host.h"
#include "coordinator/cluster/group/loss_log.h"
#include "coordinator/cluster/group/step_profile.h"
#include "coordinator/cluster/group/step_statistics.h"
#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// The engine's thread. Each round runs the tasks in the inbox, plans and sends as many steps as the engine allows,
/// awaits the oldest result, commits it and delivers its tokens. Lost workers are restarted. A group that does not
/// start is given up; while other replicas serve, its start is tried again from time to time.
class EngineLoop : private WorkerGroupListener {
 public:
  /// Starts the thread. The arguments must outlive the loop.
  EngineLoop(Engine& engine, WorkerGroup& group, EngineLoopHost& host);
  ~EngineLoop() override;
  /// Ends the thread, and drops every request and task, so that none outlives the objects that it uses.
  void Stop();

  /// Queues `task` to run on the engine's thread, after the tasks posted before. Callable from any thread.
  void Post(std::function<void(Engine&)> task);

  /// Replaces the workers while requests wait. Once no step is outstanding and cached blocks are on the disk (3 s at
  /// most), calls `replace`, which ends the old workers and starts new ones, and then `done` with "" or the error.
  /// After an error the loop starts the workers again as after a loss. Callable from any thread.
  void ReplaceWorkers(std::function<void()> replace, std::function<void(const std::string&)> done);

  /// While paused, the engine accepts requests but plans no step.
  void SetPaused(bool paused);
  bool paused() const { return paused_.load(); }

  /// Returns the seconds on the engine's clock, the clock of Request::arrival_seconds.
  static double Now();

  /// Returns false while the worker group is given up.
  bool serving() const { return serving_.load(); }
  bool recovering() const { return recovering_.load(); }  // true while lost workers are restarted
  /// Returns the number of worker groups that were lost and replaced.
  int num_recoveries() const { return num_recoveries_.load(); }
  const LossLog& losses() const { return losses_; }
  /// Returns the distributions over the steps. Call steps() and profile() on the engine's thread only.
  const StepStatistics& steps() const { return steps_; }
  StepProfile& profile() { return profile_; }

 private:
  struct Replacement {
    std::function<void()> replace;
    std::function<void(const std::string&)> done;
    double asked_seconds = 0;  // on the engine's clock
  };

  bool Stopping() override { return stopping_.load(); }
  void WhileWaiting() override;
  void OnBlocksReport(Rank rank, const BlocksReport& report) override { host_.OnBlocksReport(rank, report); }
  void OnGrammarReady(Rank rank, const GrammarReady& report) override { host_.OnGrammarReady(rank, report); }
  void OnAdapterReady(Rank rank, const AdapterReady& report) override { host_.OnAdapterReady(rank, report); }
  void OnStepAnswered(Rank rank, StepId step, const StepTimes& times) override { profile_.Answered(rank, step, times); }
  void Run();
  void RunUntilStopped();
  bool MayReplace(double now) const;
  void Replace();
  bool Recover(GroupFailure& failure);
  void AwaitReturn(GroupFailure& failure);
  void HaveRecovered();
  void WaitFor(std::chrono::milliseconds time);
  void DrainInbox();
  std::function<void(Engine&)> NextTask();  // takes the oldest task out of the inbox; null: the inbox is empty
  void Abandon(const std::string& message);
  void Wake();

  Engine& engine_;
  WorkerGroup& group_;
  EngineLoopHost& host_;
  std::mutex mutex_;
  std::deque<std::function<void(Engine&)>> inbox_;  // guarded by mutex_
  std::vector<Replacement> replacements_;           // waiting replacements; only the engine's thread uses them
  int wake_fd_;                                     // an eventfd: readable while the inbox may hold tasks
  std::atomic<bool> stopping_{false}, serving_{true}, recovering_{false}, paused_{false};
  std::atomic<int> num_recoveries_{0};
  int fruitless_epochs_ = 0;                                      // groups lost in a row without a completed step
  std::optional<std::chrono::steady_clock::time_point> lost_at_;  // time of the loss while lost workers are restarted
  LossLog losses_;
  StepStatistics steps_;
  StepProfile profile_;
  std::thread thread_;
};

}  // namespace quire
