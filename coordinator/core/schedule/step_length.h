#pragma once

#include <cstdint>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/learned_cost.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/scheduler_limits.h"

namespace quire {

/// How much a step may compute.
struct StepBudget {
  int tokens = 0;
  int64_t work = 0;  // in tokens without context: a token counts as often as LearnedCost::Weight says
};

/// Decides how many tokens a step may have. A newly arrived request waits for the outstanding steps and then for the
/// steps that compute its prompt. Both waits are short only if every step is short.
class StepLength {
 public:
  StepLength(const SchedulerLimits& limits, const BlockManager& blocks, const RunningSet& running,
             const LearnedCost& cost)
      : limits_(limits), blocks_(blocks), running_(running), cost_(cost) {}

  /// Returns the number of tokens of a step while one client is active: all its decodes, and as many prompt tokens as
  /// fit into the step's target time.
  int TokensAlone() const;
  /// Returns the work, decodes apart, of a step while one client is active. Decodes whose contexts make more work than
  /// this take turns.
  int64_t WorkAlone() const;
  /// Returns the size of a step, decodes included, while several clients are active and for a while afterwards. Decodes
  /// that do not fit take turns.
  StepBudget InCompany() const;
  /// Returns the number of tokens of a step while several clients are active, for models that read prompts as a whole.
  int TokensInCompany() const;

 private:
  struct Work {
    int decodes = 0;
    int deepest_chunk = 0;  // most tokens that precede the next chunk, over all sequences
  };
  Work CountWork() const;
  int64_t MaxContext() const;
  int TokensForTarget() const;

  const SchedulerLimits& limits_;
  const BlockManager& blocks_;
  const RunningSet& running_;
  const LearnedCost& cost_;
};

}  // namespace quire
