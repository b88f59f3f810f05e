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
#include "coordinator/core/engine.h"

namespace quire {

/// The engine's thread: drain the inbox, plan and send as far ahead as the engine does, await the oldest result,
/// commit, deliver, again. When the worker group is lost it has the workers started again and goes on.
class EngineLoop : private WorkerGroupListener {
 public:
  /// Starts the thread. All three outlive the loop.
  EngineLoop(Engine& engine, WorkerGroup& group, EngineLoopHost& host);
  /// Stops the thread; what still runs is dropped.
  ~EngineLoop() override;

  /// Ends the thread and drops every request and task, so that nothing of theirs outlives what they refer to.
  void Stop();

  /// Runs `task` on the engine's thread, between one step's delivery and the next step's planning. From any thread.
  void Post(std::function<void(Engine&)> task);

  /// Has the workers replaced while requests wait: once no step is outstanding, `replace` ends the old ones and starts
  /// the new ones, on the engine's thread. `done` hears there how it went: "" or what was thrown, after which the
  /// workers are started again as after a loss. From any thread; one after another.
  void ReplaceWorkers(std::function<void()> replace, std::function<void(const std::string&)> done);

  /// While paused, requests are taken and wait; no step is planned.
  void SetPaused(bool paused);
  bool paused() const { return paused_.load(); }

  /// Seconds on the engine's clock: what Request::arrival_seconds is on.
  static double Now();

  /// False once the worker group is lost for good.
  bool serving() const { return serving_.load(); }
  /// True while workers are started again; requests wait meanwhile.
  bool recovering() const { return recovering_.load(); }
  /// Worker groups that were lost and replaced.
  int num_recoveries() const { return num_recoveries_.load(); }
  const LossLog& losses() const { return losses_; }
  /// On the engine's thread.
  const StepStatistics& steps() const { return steps_; }
  /// On the engine's thread.
  StepProfile& profile() { return profile_; }

 private:
  struct Replacement {
    std::function<void()> replace;
    std::function<void(const std::string&)> done;
  };

  bool Stopping() override { return stopping_.load(); }
  void WhileWaiting() override;
  void OnBlocksReport(Rank rank, const BlocksReport& report) override { host_.OnBlocksReport(rank, report); }
  void OnGrammarReady(Rank rank, const GrammarReady& report) override { host_.OnGrammarReady(rank, report); }
  void OnStepAnswered(Rank rank, StepId step, const StepTimes& times) override { profile_.Answered(rank, step, times); }

  void Run();
  void RunUntilStopped();
  void Replace();
  bool Recover(GroupFailure& failure);
  void WaitFor(std::chrono::milliseconds time);
  void DrainInbox();
  /// Null: there is none.
  std::function<void(Engine&)> NextTask();
  void Abandon(const std::string& message);
  void Wake();

  Engine& engine_;
  WorkerGroup& group_;
  EngineLoopHost& host_;
  std::mutex mutex_;
  std::deque<std::function<void(Engine&)>> inbox_;  // guarded by mutex_
  std::vector<Replacement> replacements_;           // of the engine's thread; the first is next
  int wake_fd_;                                     // an eventfd: readable while the inbox may hold something
  std::atomic<bool> stopping_{false}, serving_{true}, recovering_{false}, paused_{false};
  std::atomic<int> num_recoveries_{0};
  int fruitless_epochs_ = 0;  // lost in a row without a step in between
  LossLog losses_;
  StepStatistics steps_;
  StepProfile profile_;
  std::thread thread_;
};

}  // namespace quire
