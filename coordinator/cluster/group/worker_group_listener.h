#pragma once

#include "comm/wire/messages.h"
#include "coordinator/core/command.h"

namespace quire {

/// Whoever drives a worker group, as the group sees it while it waits. All of it is called on the group's thread, in
/// the middle of a wait: nothing here may wait for the group.
class WorkerGroupListener {
 public:
  virtual ~WorkerGroupListener() = default;

  /// Asked in every round of waiting: true ends the wait with GroupFailure, because nobody needs the answer any more.
  virtual bool Stopping() = 0;
  /// Called in every round of waiting, at least every 100 ms.
  virtual void WhileWaiting() = 0;
  /// A rank has something to say about KV blocks that it was told to give or take.
  virtual void OnBlocksReport(Rank rank, const BlocksReport& report) = 0;
  /// A rank has compiled a grammar that it was sent, or cannot.
  virtual void OnGrammarReady(Rank rank, const GrammarReady& report) = 0;
  /// A rank has answered for a step, which took it so long.
  virtual void OnStepAnswered(Rank, StepId, const StepTimes&) {}
};

/// Whoever started the ranks' processes, and knows before anybody else when they have ended.
class LauncherWatch {
 public:
  virtual ~LauncherWatch() = default;

  /// Called whenever the group waits. Throws GroupFailure when the processes have ended.
  virtual void CheckLauncher() = 0;
};

}  // namespace quire
