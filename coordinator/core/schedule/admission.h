#pragma once

#include <span>

#include "coordinator/core/schedule/preemption.h"
#include "coordinator/core/schedule/request_work.h"
#include "coordinator/core/schedule/room_estimate.h"
#include "coordinator/core/schedule/step_writer.h"

namespace quire {

/// Decides which waiting requests start to run.
class Admission {
 public:
  /// When requests of other clients are preempted for a client, the freed slots and blocks stay reserved for that
  /// client for this many steps. An admission with which the client uses all reserved slots again restarts the count.
  static constexpr int64_t kReservedSteps = 128;

  Admission(BlockManager& blocks, WaitingQueue& queue, RunningSet& running, const ClientShares& shares,
            const RoomEstimate& room, const LongPasses& passes, RequestWork& work, StepWriter& writer,
            Preemption& preemption, DecisionTeller& decisions)
      : blocks_(blocks),
        queue_(queue),
        running_(running),
        shares_(shares),
        room_(room),
        passes_(passes),
        work_(work),
        writer_(writer),
        preemption_(preemption),
        decisions_(decisions) {}

  /// Admits waiting requests that fit beside the running requests, one client after another, while the step has tokens
  /// left. Puts the first tokens of the admitted requests into the step.
  void AdmitWaiting(StepDraft& draft);
  /// Called when it is the client's turn to be admitted; `fits`: the client's next request can run now. If this request
  /// fitted earlier, let other clients go first and no longer fits, counts that as a yield (Request::num_yields).
  void NoteTurn(ClientAccount& client, bool fits);
  /// Moves the request from the queue to the running set. Returns its first work, as RequestWork::FindWork does.
  std::span<GrowTarget> Admit(Request& request, StepDraft& draft);

 private:
  bool MayJoin(const Request& request, const Crowd& crowd, const StepDraft& draft) const;
  bool HasRoomFor(Request& request, const Crowd& crowd, StepDraft& draft);
  void Begin(Request& request, Crowd& crowd, StepDraft& draft);
  void KeepRoomOf(ClientAccount& client, StepDraft& draft);
  void Readmit(Request& request, StepDraft& draft);

  BlockManager& blocks_;
  WaitingQueue& queue_;
  RunningSet& running_;
  const ClientShares& shares_;
  const RoomEstimate& room_;
  const LongPasses& passes_;
  RequestWork& work_;
  StepWriter& writer_;
  Preemption& preemption_;
  DecisionTeller& decisions_;
};

}  // namespace quire
