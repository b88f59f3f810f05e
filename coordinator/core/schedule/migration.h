#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/command.h"
#include "coordinator/core/schedule/decision_teller.h"
#include "coordinator/core/schedule/outstanding_steps.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/waiting_queue.h"

namespace quire {

/// Moves requests between the schedulers of two engines, sets requests aside and takes them up again. Scheduler has
/// functions of the same names, with comments that describe the public functions.
class Migration {
 public:
  Migration(BlockManager& blocks, WaitingQueue& queue, RunningSet& running, OutstandingSteps& steps,
            DecisionTeller& decisions)
      : blocks_(blocks), queue_(queue), running_(running), steps_(steps), decisions_(decisions) {}

  std::vector<BlockId> Depart(Request& request, const command::Depart& how, std::vector<BlockCopyPair>& moves);
  void Arrive(Request& request, uint64_t ticket, std::span<const BlockId> names);
  void SetAside(Request& request);
  void TakeUp(Request& request);
  void ArriveAside(Request& request);

 private:
  void TakeOut(Request& request);
  void DiscardComputed(Request& request);
  void Restart(Request& request, bool has_blocks);
  void Enter(Request& request);

  BlockManager& blocks_;
  WaitingQueue& queue_;
  RunningSet& running_;
  OutstandingSteps& steps_;
  DecisionTeller& decisions_;
};

}  // namespace quire
