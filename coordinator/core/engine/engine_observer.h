#pragma once

#include "coordinator/core/command.h"
#include "coordinator/core/decision_log.h"

namespace quire {

/// Hears all inputs and decisions of an Engine: enough to replay it and get the same plans.
class EngineObserver : public DecisionLog {
 public:
  /// Called before a plan is made: the moment to take a snapshot. A step may be outstanding.
  virtual void BeforePlan(double now) = 0;
  /// Every command that may change state, in order. While a step is committed, commands that end requests come before
  /// the Commit command. A submitted or adopted request is still as it arrived.
  virtual void OnCommand(const Command& command, const CommandOutcome& outcome) = 0;
};

}  // namespace quire
