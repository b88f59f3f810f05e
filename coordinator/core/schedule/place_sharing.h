#pragma once

#include "coordinator/core/schedule/admission.h"

namespace quire {

/// While several clients are active, gives free sequence slots and blocks to the clients alternately. For a waiting
/// client below its share, the youngest requests of clients above their share are preempted, unless they are protected
/// (kProtectedSteps).
class PlaceSharing {
 public:
  /// The number of steps after its return during which a request that was preempted for another client cannot be
  /// preempted for another client again; twice this number from the second preemption on. The number is small, because
  /// other clients wait for their first tokens while such a request holds all slots.
  static constexpr int64_t kProtectedSteps = 8;

  PlaceSharing(WaitingQueue& queue, const RunningSet& running, const ClientShares& shares, const RoomEstimate& room,
               Preemption& preemption, Admission& admission, DecisionTeller& decisions)
      : queue_(queue),
        running_(running),
        shares_(shares),
        room_(room),
        preemption_(preemption),
        admission_(admission),
        decisions_(decisions) {}

  /// Admits waiting requests within their clients' shares. Returns false when the step must wait for results, because a
  /// request must be preempted for another client first.
  bool SharePlaces(StepDraft& draft);

 private:
  bool MakeWayFor(Request& head, Crowd& crowd, StepDraft& draft);
  Request* WhoGivesWay(const Request& head, Resource resource, StepDraft& draft) const;
  static bool IsProtected(const Request& request, const StepDraft& draft);

  WaitingQueue& queue_;
  const RunningSet& running_;
  const ClientShares& shares_;
  const RoomEstimate& room_;
  Preemption& preemption_;
  Admission& admission_;
  DecisionTeller& decisions_;
};

}  // namespace quire
