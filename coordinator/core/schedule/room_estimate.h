#pragma once

#include <optional>

#include "coordinator/core/schedule/client_shares.h"

namespace quire {

/// Totals over all running requests. Admission updates the totals, so that it need not look at all running requests for
/// every waiting request.
struct Crowd {
  int sequences = 0;
  int blocks = 0;        // blocks that the running requests will take soon
  bool suspect = false;  // a running request may have caused the loss of workers
};

/// Names the resource that a request lacks, if any. `a` and `b` are the numbers that the decision log gets with
/// DecisionKind::kHeldForSlots or kHeldForBlocks.
struct Room {
  std::optional<Resource> lacks;
  int a, b;
};

/// Estimates whether a waiting request fits beside the running requests. The request must fit with all its known tokens
/// beside the tokens that running requests still compute and will soon sample. So a newly admitted request rarely
/// causes a preemption.
class RoomEstimate {
 public:
  RoomEstimate(const SchedulerLimits& limits, const BlockManager& blocks, const RunningSet& running,
               const BlockDemand& demand, const ClientShares& shares)
      : limits_(limits), blocks_(blocks), running_(running), demand_(demand), shares_(shares) {}

  Crowd CountCrowd() const;
  void CountIn(const Request& request, Crowd& crowd) const;
  void CountOut(const Request& request, Crowd& crowd) const;
  Room RoomFor(Request& request, const Crowd& crowd, StepDraft& draft) const;
  /// True when other clients go first, because this client's next request would exceed the client's share. Then also
  /// sets the account's stands_back, and left_room if the request exceeds a share by itself.
  bool StandsBack(ClientAccount& client, const Crowd& crowd, StepDraft& draft) const;
  /// False when the request must not run beside the running requests. A suspect (a request that may be killing the
  /// workers) runs alone, so that a further loss of workers interrupts no other request.
  bool MayRunBeside(const Request& request, const Crowd& crowd) const;

 private:
  bool IsSuspect(const Request& request) const { return request.num_lost_epochs >= limits_.suspect_after; }

  const SchedulerLimits& limits_;
  const BlockManager& blocks_;
  const RunningSet& running_;
  const BlockDemand& demand_;
  const ClientShares& shares_;
};

}  // namespace quire
