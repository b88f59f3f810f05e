#pragma once

#include <cstdint>
#include <vector>

#include "comm/wire/step_plan.h"

namespace quire {

/// The limits for the values of a plan. A worker executes only a plan within these limits.
struct PlanLimits {
  int32_t num_blocks = 0, num_host_blocks = 0;  // the null block counts in both
  int32_t block_size = 0, max_running = 0, max_step_tokens = 0, max_model_len = 0, vocab_size = 0;
  int32_t state_blocks = 0;                  // blocks of one sequence's state; 0: the model has no states
  int32_t num_adapters = 0;                  // number of the adapters that Assign lists
  std::vector<int32_t> later_adapters = {};  // numbers of the adapters that were loaded while serving
  int32_t max_guess = 0;                     // most tokens of a draft of the draft model; 0: there is no draft model
  int32_t max_draft_rows = 0;                // for models with states: most rows of the sequences with drafts
  int32_t pass_stages = 0;                   // stages of a pass in slices (Slice); 0: the model is no encoder
};

/// Checks the values of a plan whose structure is valid. Every block id, slot, token, count and length must be within
/// the limits. No slot may be in the batch twice, and no block may be overwritten before it is read. Throws Error with
/// the value that is wrong. The worker's sequence table checks whatever depends on earlier plans.
void CheckPlan(const StepPlan& plan, const PlanLimits& limits);

}  // namespace quire
