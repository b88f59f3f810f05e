#pragma once

#include "comm/wire/messages.h"
#include "coordinator/core/command.h"

namespace quire {

/// The calls that a worker group makes while the group waits; EngineLoop implements this interface. Calls come on the
/// group's thread in the middle of a wait, so no method may wait for the group.
class WorkerGroupListener {
 public:
  virtual ~WorkerGroupListener() = default;

  /// Called in every round of waiting. If the result is true, the wait ends with GroupFailure: nobody needs the answer.
  virtual bool Stopping() = 0;
  /// Called in every round of waiting, at least every 100 ms.
  virtual void WhileWaiting() = 0;
  /// Called when a rank reports on KV blocks that it was told to send or receive.
  virtual void OnBlocksReport(Rank rank, const BlocksReport& report) = 0;
  /// Called when a rank has compiled a grammar, or cannot compile it.
  virtual void OnGrammarReady(Rank rank, const GrammarReady& report) = 0;
  /// Called when a rank has read a LoRA adapter, or cannot read it.
  virtual void OnAdapterReady(Rank rank, const AdapterReady& report) = 0;
  /// Called when a rank has answered a step. `times`: how long the rank took.
  virtual void OnStepAnswered(Rank, StepId, const StepTimes&) {}
};

/// The launcher of the ranks' processes. The launcher is the first to learn that the processes have ended.
class LauncherWatch {
 public:
  virtual ~LauncherWatch() = default;

  /// Called in every round of waiting. Throws GroupFailure when the processes have ended.
  virtual void CheckLauncher() = 0;
};

}  // namespace quire
