#pragma once

#include "coordinator/core/engine/engine.h"
#include "tests/support/thread_group.h"

namespace quire::test {

/// Does what the coordinator does between two results: sends the group every plan that the engine makes ahead, then
/// awaits the oldest step and commits its result. Does nothing while the engine has no work.
inline void StepAhead(Engine& engine, ThreadGroup& group) {
  while (const StepPlan* plan = engine.NextPlan(0)) {
    engine.scheduler().CheckIntegrity();
    group.Send(*plan);
  }
  if (engine.num_outstanding() == 0) return;
  const std::vector<SampledToken> drawn = group.Await();
  QUIRE_CHECK(engine.Fits(drawn) && engine.Fits(group.scores()) && engine.Fits(group.guesses()),
              "the result does not fit the plan");
  engine.CommitStep(drawn, {}, group.scores(), group.guesses());
  engine.scheduler().CheckIntegrity();
}

}  // namespace quire::test
