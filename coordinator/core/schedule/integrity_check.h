#pragma once

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/outstanding_steps.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/scheduler_limits.h"
#include "coordinator/core/schedule/waiting_queue.h"

namespace quire {

/// Recounts blocks, slots and tokens in flight from scratch, and aborts if an invariant is broken (see
/// Scheduler::CheckIntegrity).
void CheckSchedule(const SchedulerLimits& limits, const BlockManager& blocks, const WaitingQueue& queue,
                   const RunningSet& running, const OutstandingSteps& steps);

}  // namespace quire
