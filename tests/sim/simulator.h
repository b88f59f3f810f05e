#pragma once

#include <cstdint>
#include <string>

namespace quire::sim {

struct Outcome {
  uint64_t trace_hash = 0;  // hash of every plan, delivered token and error
  int64_t steps = 0, events = 0, preemptions = 0, swap_outs = 0, cached_tokens = 0;
  int64_t ahead = 0, dropped = 0;     // steps planned while a step was outstanding; tokens sampled for ended sequences
  int64_t moved = 0, moved_bare = 0;  // requests that left and came back, with blocks and without
  int64_t moved_on_device = 0;        // moved requests whose blocks are in the target's prefix cache afterwards
  int64_t moved_half = 0;             // transfers that broke off half-way
  int64_t epochs = 0, pins_broken = 0;
  int64_t stored = 0, returned = 0;             // blocks that went to a store, and that came back
  int64_t returned_states = 0;                  // checkpoints that went to a store and came back
  int64_t lies = 0;                             // reads of lost, torn, changed or foreign files of a store
  int64_t copied = 0, brought = 0;              // blocks copied to the host cache, and copies that came back
  int64_t floods = 0;                           // 1 when one client floods and others send short requests
  int64_t gave_way = 0;                         // requests that gave way to other clients' requests
  int64_t stood_back = 0;                       // requests above a share that lost their room to other clients
  int64_t adapters = 0;                         // adapters that were loaded later
  int64_t set_aside = 0;                        // requests of batches that were set aside for others
  int64_t newcomers = 0, prompt_newcomers = 0;  // new clients served as promised; those served by the next plan
  int64_t scored = 0;                           // scored prompt tokens
  int64_t pooled = 0;                           // choices with a pooled prompt
  int64_t whole = 0;                            // pooled choices whose prompt could not be cut into chunks
  int64_t slices = 0;                           // slices of such prompts' passes
  int64_t overtaken = 0;  // requests admitted before their clients' next requests, which wait for passes
  int64_t states = 0;     // 1 when the model has states in this run
  int64_t states_kept = 0, states_begun = 0;  // checkpoints; tokens before checkpoints that sequences started from
  int64_t may_fail = 0, lost_a_group = 0;     // 1 when faults were possible in this run; 1 when a second epoch began
  // Numbers of requests, by the way they ended. The counts from `answered` to `no_numbers` add up to `asked`.
  int64_t asked = 0, answered = 0, cancelled = 0, refused = 0;
  int64_t no_room = 0, overtime = 0, past_deadline = 0;  // waited too long; ran too long; beyond the client's limit
  int64_t given_up = 0, aborted = 0, no_numbers = 0;     // lost with the workers; by an operator; no valid logits
  int64_t drafts = 0, drafts_right = 0;                  // draft tokens; draft tokens that verification accepted
  int64_t guesses = 0;                                   // drafts that a draft model made
  int64_t changes = 0;                                   // changes of options by an operator
};

/// Thrown when the engine breaks a promise to its clients or workers. A broken invariant inside the core aborts
/// instead, and so does a lack of progress.
struct Failure {
  std::string what;
};

/// Runs one seed's scenario: the real engine, real frames, simulated workers, a virtual clock, and faults. After every
/// event the engine's invariants are computed again from scratch. Every client must get the oracle's tokens, once each
/// and in order, or the right error at the right time. At the end no resource may be held. Throws Failure.
Outcome Simulate(uint64_t seed);

/// Does what Simulate does, and prints the events on standard output.
void Narrate(uint64_t seed);

}  // namespace quire::sim
