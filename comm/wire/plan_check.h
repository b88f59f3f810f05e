#pragma once

#include <cstdint>

#include "comm/wire/step_plan.h"

namespace quire {

/// Bounds that a plan is checked against before anything acts on it.
struct PlanLimits {
  int32_t num_blocks = 0, num_host_blocks = 0;  // null blocks counted in
  int32_t block_size = 0, max_running = 0, max_step_tokens = 0, max_model_len = 0, vocab_size = 0;
  int32_t state_blocks = 0;  // that hold a sequence's state; 0: there are none
};

/// The meaning of a plan whose structure is sound: every block id, slot, token, count and length within limits, no slot
/// twice in the batch, and no block moved in an order that could lose its content. Throws Error naming the slot or
/// block. What depends on earlier plans is checked by the worker's table.
void CheckPlan(const StepPlan& plan, const PlanLimits& limits);

}  // namespace quire
