#pragma once

#include <string>

#include "coordinator/cluster/group/group_failure.h"
#include "coordinator/cluster/group/worker_group_listener.h"
#include "coordinator/core/engine.h"

namespace quire {

/// Whoever owns an engine, its workers and its loop, as the loop sees it. All of it is called on the engine's thread.
class EngineLoopHost {
 public:
  virtual ~EngineLoopHost() = default;

  /// In every round of the loop, between one step's delivery and the next step's planning.
  virtual void BetweenSteps(Engine& engine) = 0;
  /// Starts the workers again after a loss, so that the engine can go on. Throws when that fails.
  virtual void Relaunch(const GroupFailure& loss) = 0;
  /// The workers are lost for good: takes out of the engine what somebody else can serve, before the rest is ended with
  /// an error. Also called for requests that come later.
  virtual void Abandon(Engine& engine) = 0;
  /// Once, when no more attempts are made.
  virtual void OnLostForGood(const std::string& reason) = 0;
  /// What ranks say beside the steps (WorkerGroupListener).
  virtual void OnBlocksReport(Rank rank, const BlocksReport& report) = 0;
  virtual void OnGrammarReady(Rank rank, const GrammarReady& report) = 0;
};

}  // namespace quire
