#pragma once

#include <string>

#include "coordinator/cluster/group/group_failure.h"
#include "coordinator/cluster/group/worker_group_listener.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// The owner of an engine, its workers and its loop (Replica), as the loop sees it. All calls come on the engine's
/// thread.
class EngineLoopHost {
 public:
  virtual ~EngineLoopHost() = default;

  /// Called in every round of the loop, between one step's delivery and the next step's planning.
  virtual void BetweenSteps(Engine& engine) = 0;
  /// True while cached blocks of the workers wait for a store. A replacement of the workers waits for them, for a
  /// while.
  virtual bool IsSaving() const { return false; }
  /// Restarts the workers after a loss. Throws Error or GroupFailure when that fails.
  virtual void Relaunch(const GroupFailure& loss) = 0;
  /// Called again and again while a restart takes long. Moves the requests to other replicas, if some are ready.
  virtual void Displace(Engine& engine) = 0;
  /// Called when the workers are given up, and for requests that arrive later. Moves requests that other replicas can
  /// serve out of the engine; the loop then ends the other requests with an error.
  virtual void Abandon(Engine& engine) = 0;
  /// Called when the workers are given up, after Abandon.
  virtual void OnLost(const std::string& reason) = 0;
  /// Restarts workers that were given up. False: it must not be tried, because nothing serves without them. Throws when
  /// the restart fails.
  virtual bool Return(const GroupFailure& loss) = 0;
  /// The next functions get the ranks' reports that belong to no step (see WorkerGroupListener).
  virtual void OnBlocksReport(Rank rank, const BlocksReport& report) = 0;
  virtual void OnGrammarReady(Rank rank, const GrammarReady& report) = 0;
  virtual void OnAdapterReady(Rank rank, const AdapterReady& report) = 0;
};

}  // namespace quire
