#pragma once

#include "coordinator/core/command.h"
#include "coordinator/core/decision_log.h"

namespace quire {

/// Hears everything that goes into an Engine, and what it decides: enough to run it again and get the same plans.
class EngineObserver : public DecisionLog {
 public:
  /// Before a plan is made: the moment for snapshots. A step may be outstanding.
  virtual void BeforePlan(double now) = 0;
  /// Every command that may change something, in their order; one that ends requests while a step is committed is told
  /// before the step's. A request that is submitted or adopted is still as it came.
  virtual void OnCommand(const Command& command, const CommandOutcome& outcome) = 0;
};

}  // namespace quire
