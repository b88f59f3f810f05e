#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/block_manager.h"
#include "coordinator/core/waiting_queue.h"

namespace quire {

/// What is true only while one step is planned: Scheduler::Schedule makes it and hands it down. The lists keep their
/// memory from step to step.
struct StepDraft {
  bool in_company = false;              // several clients are active, or were a moment ago
  int budget = 0;                       // tokens that the step may still compute
  int64_t added_bytes = 0;              // of the sequences that are sent whole
  int reserved_blocks = 0;              // that those that run may need: no state is kept instead
  std::vector<Request*> order;          // of service: all that run; the last gives way first
  std::vector<Request*> returning;      // swapped out, and there is room for them
  std::vector<ClientAccount*> sharers;  // clients that want a part of the step
  std::vector<GrowTarget> work;         // of one request at a time: how far the step takes its sequences

  void Begin(bool company, int tokens) {
    in_company = company;
    budget = tokens;
    added_bytes = 0;
    reserved_blocks = 0;
    returning.clear();
    sharers.clear();
  }
};

/// All that run, and the room that is kept, while requests are admitted: what each newcomer would otherwise look at all
/// the others for.
struct Crowd {
  int sequences = 0;
  int blocks = 0;                                   // that they will take soon
  bool suspect = false;                             // one of them may be what kills the workers
  int reserved_sequences = 0, reserved_blocks = 0;  // for clients that are away
};

}  // namespace quire
