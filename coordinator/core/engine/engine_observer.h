#pragma once

#include "coordinator/core/command.h"
#include "coordinator/core/decision_log.h"

namespace quire {

/// Gets all inputs and decisions of an Engine. The inputs suffice to replay the engine and get the same plans.
class EngineObserver : public DecisionLog {
 public:
  /// Called before a plan is made, when a snapshot of the engine can be taken. Steps may be outstanding.
  virtual void BeforePlan(double now) = 0;
  /// Called for every command that may change state, in order. While a step is committed, commands that end requests
  /// come before the Commit command. The command has not changed a submitted or adopted request yet.
  virtual void OnCommand(const Command& command, const CommandOutcome& outcome) = 0;
};

}  // namespace quire
