#pragma once

#include <cstdint>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/outstanding_steps.h"
#include "coordinator/core/schedule/waiting_queue.h"

namespace quire {

/// The step being planned, with all working values of its planning. Scheduler::Schedule passes it to the scheduler's
/// classes, which fill it in. The lists keep their memory from step to step.
struct StepDraft {
  StepPlan plan;                    // what the workers are told
  OutstandingStep* step = nullptr;  // what the scheduler remembers until the step's result comes

  int64_t number = 0;                   // steps planned before
  bool ahead = false;                   // another step is outstanding
  bool in_company = false;              // several clients are active, or were within the last seconds
  bool in_turns = false;                // some decodes may skip the step: Sequence::sits_out counts
  bool left_out = false;                // planned ahead, and a request lacked room: the next step must serve it
  bool preempted = false;               // a running request gave its blocks to another one, so nobody is admitted
  bool use_counted = false;             // ClientAccount::use counts the present running requests
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

  /// Begins a step. `num_planned` steps were planned before it; the step's members go into `made`. The plan must be
  /// empty.
  void Begin(int64_t num_planned, OutstandingStep& made, bool is_ahead, bool company) {
    step = &made;
    step->Clear();
    number = num_planned;
    ahead = is_ahead;
    in_company = company;
    in_turns = false;
    left_out = preempted = use_counted = false;
    added_bytes = 0;
    reserved_blocks = 0;
    returning.clear();
    sharers.clear();
  }
  void SetBudget(int tokens) { most_tokens = budget = tokens; }
  /// Returns the number of decodes of the requests after order[i].
  int DecodesAfter(size_t i) const { return decodes_before[order.size()] - decodes_before[i + 1]; }
};

/// The tokens that one request may compute in a step.
struct Allowance {
  int decodes = 0;  // sequences that may decode, one token each
  int chunks = 0;   // tokens of its other sequences
};

}  // namespace quire
