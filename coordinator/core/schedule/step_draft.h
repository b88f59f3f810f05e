#pragma once

#include <cstdint>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/schedule/outstanding_steps.h"
#include "coordinator/core/schedule/waiting_queue.h"

namespace quire {

/// The step being planned, with all working values of its planning. Scheduler::Schedule passes the draft to the
/// scheduler's classes, which fill it in. The memory of the lists is used again in the next step.
struct StepDraft {
  StepPlan plan;                    // the plan that the workers get
  OutstandingStep* step = nullptr;  // the scheduler's record of the step until its result comes

  int64_t number = 0;        // number of steps planned before this one
  bool ahead = false;        // another step is outstanding
  bool in_company = false;   // several clients are active, or were within the last seconds
  bool in_turns = false;     // some decodes may skip the step: Sequence::sits_out counts
  bool left_out = false;     // planned ahead and lacked room for a request, which the next step must serve
  bool preempted = false;    // a running request gave its blocks to another, so no request is admitted
  bool use_counted = false;  // ClientAccount::use counts the present running requests
  int most_tokens = 0;       // tokens that the step may compute, as Request::StepCost charges them
  int budget = 0;            // the part of most_tokens that is left
  /// The part of the step's work that is left, in tokens without context (LearnedCost::Weight).
  int64_t work_left = INT64_MAX;
  int pass_tokens = 0;                  // where prompts are read as a whole: the part of `budget` for running requests
  int num_passes = 0;                   // where prompts are read as a whole: number of running requests that have work
  int answered_tokens = 0;              // tokens of the prompts whose passes in slices the step completes
  bool admitted = false;                // a request was admitted, and has work in the step
  int64_t added_bytes = 0;              // bytes of the sequences that this plan sends in full
  int reserved_blocks = 0;              // blocks left to running sequences in this step; checkpoints take none of them
  std::vector<Request*> order;          // running requests in order of service; the last is preempted first
  std::vector<Request*> returning;      // swapped-out requests for which there is room
  std::vector<ClientAccount*> sharers;  // clients with decodes or chunks to compute; beams do not count
  std::vector<GrowTarget> work;         // the work of one request at a time: how far the step takes its sequences
  /// Entry i: number of sequences of order[0 .. i) that decode in this step, if there are blocks for them.
  std::vector<int> decodes_before;

  /// Begins a step after `num_planned` planned steps. The step's members go into `made`. The plan must be empty.
  /// is_ahead: earlier steps are outstanding. company: several clients are active, or were a moment ago.
  void Begin(int64_t num_planned, OutstandingStep& made, bool is_ahead, bool company) {
    step = &made;
    step->Clear();
    number = num_planned;
    ahead = is_ahead;
    in_company = company;
    in_turns = false;
    left_out = preempted = use_counted = admitted = false;
    added_bytes = 0;
    answered_tokens = 0;
    work_left = INT64_MAX;
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
  int decodes = 0;           // sequences that may decode, one token each
  int chunks = 0;            // tokens of the request's other sequences
  int64_t work = INT64_MAX;  // bound of the work of `chunks`, in tokens without context (LearnedCost::Weight)
};

}  // namespace quire
