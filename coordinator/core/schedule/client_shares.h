#pragma once

#include <map>
#include <string>

#include "coordinator/core/schedule/block_demand.h"
#include "coordinator/core/schedule/running_set.h"
#include "coordinator/core/schedule/step_draft.h"

namespace quire {

enum class Resource { kSlots, kBlocks };

/// The numbers of running sequences and of KV blocks that are reserved for clients and unused by these clients now.
struct KeptRoom {
  int sequences = 0, blocks = 0;
};

/// One client's present use of an engine, and the tokens computed for the client since the engine opened its account.
struct ClientReport {
  int running = 0, waiting = 0;  // requests
  int running_seqs = 0, blocks = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;
};

/// Computes how many sequence slots and how many KV blocks each client uses, and how many it may use while other
/// clients are active. Moves no request.
class ClientShares {
 public:
  ClientShares(const SchedulerLimits& limits, const BlockManager& blocks, WaitingQueue& queue,
               const RunningSet& running, const BlockDemand& demand)
      : limits_(limits), blocks_(blocks), queue_(queue), running_(running), demand_(demand) {}

  /// Returns the amount of the resource (running sequences or KV blocks) that each active client may use while others
  /// wait for more.
  int ShareOf(Resource resource) const;
  /// Returns the amount that the client's running requests use. For blocks, the amount includes the blocks that they
  /// will take soon.
  int Has(const ClientAccount& account, Resource resource, StepDraft& draft) const;
  /// Returns the amount that a waiting request needs in order to run.
  int Needs(Request& request, Resource resource) const;
  /// True when the request and its client's running requests together stay within the client's share.
  bool IsWithinShare(Request& head, StepDraft& draft) const;
  /// True when the request needs more than a share by itself.
  bool ExceedsShareAlone(Request& head) const;
  /// True when at least two clients have requests.
  bool InCompany() const { return queue_.num_active() > 1; }

  /// True when the client has limits of its own and its next request would exceed them.
  bool IsAtLimit(const ClientAccount& account, StepDraft& draft) const;
  /// True when the client must wait because another client's request is held for lack of sequences or blocks
  /// (`others_held`).
  bool IsHeldUp(const ClientAccount& account, bool others_held, StepDraft& draft) const;
  /// Returns the sequences and blocks that the client `taker`, which has running requests, must leave to other clients
  /// in this step (ClientAccount::Reserve).
  KeptRoom CountReserves(const ClientAccount& taker, StepDraft& draft) const;
  /// Sets draft.order to the running requests, in the order in which they get tokens and blocks.
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
