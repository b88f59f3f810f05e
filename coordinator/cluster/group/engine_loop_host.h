#pragma once

#include <string>

#include "coordinator/cluster/group/group_failure.h"
#include "coordinator/cluster/group/worker_group_listener.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// The calls that the engine loop makes to the owner of the engine and its workers (Replica). All calls come on the
/// engine's thread.
class EngineLoopHost {
 public:
  virtual ~EngineLoopHost() = default;

  /// Called in every round of the loop, after a step's tokens were delivered and before the next step is planned.
  virtual void BetweenSteps(Engine& engine) = 0;
  /// True while cached blocks in the workers' memory wait to be written to the disk. A replacement of the workers waits
  /// a while for these writes.
  virtual bool IsSaving() const { return false; }
  /// Restarts the workers after a loss. Throws Error or GroupFailure when that fails.
  virtual void Relaunch(const GroupFailure& loss) = 0;
  /// Called again and again while a restart is slow. Moves the requests to other replicas that are ready, if any.
  virtual void Displace(Engine& engine) = 0;
  /// Called when the workers are given up, and again for requests that arrive later. Takes requests that other replicas
  /// can serve out of the engine; the loop then ends the remaining requests with an error.
  virtual void Abandon(Engine& engine) = 0;
  /// Called when the workers are given up, after Abandon.
  virtual void OnLost(const std::string& reason) = 0;
  /// Restarts workers that were given up. Returns false when a restart must not be tried, because no other replica
  /// serves. Throws when the restart fails.
  virtual bool Return(const GroupFailure& loss) = 0;
  /// The next functions receive reports of ranks that belong to no step (see WorkerGroupListener).
  virtual void OnBlocksReport(Rank rank, const BlocksReport& report) = 0;
  virtual void OnGrammarReady(Rank rank, const GrammarReady& report) = 0;
  virtual void OnAdapterReady(Rank rank, const AdapterReady& report) = 0;
};

}  // namespace quire
