#pragma once

#include <map>
#include <string>

#include "coordinator/core/schedule/block_demand.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

enum class Resource { kSlots, kBlocks };

/// Room that is kept for clients with nothing running.
struct KeptRoom {
  int sequences = 0, blocks = 0;
};

/// One client's present use of an engine, and tokens computed for it since the engine first saw or last forgot the
/// client.
struct ClientReport {
  int running = 0, waiting = 0;  // requests
  int running_seqs = 0, blocks = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;
};

/// Answers what each client has of the running places and blocks, and what it may have while other clients are active.
/// Moves no request.
class ClientShares {
 public:
  ClientShares(const SchedulerLimits& limits, const BlockManager& blocks, WaitingQueue& queue,
               const RunningSet& running, const BlockDemand& demand)
      : limits_(limits), blocks_(blocks), queue_(queue), running_(running), demand_(demand) {}

  /// The amount that one active client may have while another one waits for it.
  int ShareOf(Resource resource) const;
  /// The amount that the client's running requests have; blocks: also those that they will take soon.
  int Has(const ClientAccount& account, Resource resource, StepDraft& draft) const;
  /// The amount that a waiting request needs in order to run.
  int Needs(Request& request, Resource resource) const;
  /// True when the request and its client's running requests together stay within the client's share.
  bool IsWithinShare(Request& head, StepDraft& draft) const;

  /// True when the client has a limit of its own and its next request would exceed it.
  bool IsAtLimit(const ClientAccount& account, StepDraft& draft) const;
  /// True when the client must wait because a request of another one is held for lack of room (`others_held`).
  bool IsHeldUp(const ClientAccount& account, bool others_held, StepDraft& draft) const;
  /// True when other clients go first, because this one's next request would exceed its share. Notes it in the account.
  bool StandsBack(ClientAccount& account, StepDraft& draft) const;
  /// The room reserved in this step for clients that have nothing running.
  KeptRoom CountReserves(const StepDraft& draft) const;
  /// Fills in draft.order.
  void OrderForService(StepDraft& draft) const;

  std::map<std::string, ClientReport> Clients() const;

 private:
  void CountUse(StepDraft& draft) const;

  const SchedulerLimits& limits_;
  const BlockManager& blocks_;
  WaitingQueue& queue_;
  const RunningSet& running_;
  const BlockDemand& demand_;
};

}  // namespace quire
