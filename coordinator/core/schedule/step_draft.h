#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/waiting_queue.h"

namespace quire {

/// Working data of one step's planning. Scheduler::Schedule fills it and passes it down; the lists keep their memory
/// from step to step.
struct StepDraft {
  bool in_company = false;              // several clients are active, or were within the last seconds
  int most_tokens = 0;                  // tokens that the step may compute, as Request::StepCost charges them
  int budget = 0;                       // tokens that are left of most_tokens
  int64_t added_bytes = 0;              // bytes of the sequences sent in full with this plan
  int reserved_blocks = 0;              // blocks that running sequences may take in this step; not for kept states
  std::vector<Request*> order;          // running requests in order of service; the last is preempted first
  std::vector<Request*> returning;      // swapped-out requests for which there is room
  std::vector<ClientAccount*> sharers;  // clients with work in the step
  std::vector<GrowTarget> work;         // one request's work at a time: how far the step takes its sequences
  /// Entry i: the sequences of order[0 .. i) that decode in this step, if there are blocks for them.
  std::vector<int> decodes_before;

  void Begin(bool company, int tokens) {
    in_company = company;
    SetBudget(tokens);
    added_bytes = 0;
    reserved_blocks = 0;
    returning.clear();
    sharers.clear();
  }
  void SetBudget(int tokens) { most_tokens = budget = tokens; }
  /// Decodes of the requests that come after order[i].
  int DecodesAfter(size_t i) const { return decodes_before[order.size()] - decodes_before[i + 1]; }
};

/// The tokens that one request may compute in a step.
struct Allowance {
  int decodes = 0;  // sequences that may decode, one token each
  int chunks = 0;   // tokens of its other sequences
};

/// Totals over all running requests. Admission keeps them up to date, so that it need not scan all running requests for
/// every newcomer.
struct Crowd {
  int sequences = 0;
  int blocks = 0;        // blocks that the running requests will take soon
  bool suspect = false;  // a running request may be what kills the workers
};

/// Room that is kept for clients with nothing running.
struct KeptRoom {
  int sequences = 0, blocks = 0;
};

}  // namespace quire
