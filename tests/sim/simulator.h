#pragma once

#include <cstdint>
#include <string>

namespace quire::sim {

struct Outcome {
  uint64_t trace_hash = 0;  // of every plan, every delivered token and every error
  int64_t steps = 0, events = 0, preemptions = 0, swap_outs = 0, cached_tokens = 0;
  int64_t ahead = 0, dropped = 0;     // steps planned with one outstanding; draws of sequences that had ended
  int64_t moved = 0, moved_bare = 0;  // requests that left and came back, with blocks and without
  int64_t moved_on_device = 0;        // with blocks that are cached then
  int64_t moved_half = 0;             // of the latter: a transfer broke off in the middle
  int64_t epochs = 0, pins_broken = 0;
  int64_t floods = 0;                           // 1 when one client floods and others come with short requests
  int64_t gave_way = 0;                         // requests, to other clients'
  int64_t newcomers = 0, prompt_newcomers = 0;  // that were promised a quick token; of those, with the next plan
  int64_t scored = 0;                           // tokens of prompts
  int64_t pooled = 0;                           // prompts of choices
  int64_t states = 0;                           // 1 when the model has them in this life
  int64_t states_kept = 0, states_begun = 0;    // checkpoints; tokens before those that sequences began behind
  int64_t may_fail = 0, lost_a_group = 0;       // 1 when faults were possible in this life; when one ended an epoch
  // What became of the requests that came: these add up to all of them.
  int64_t asked = 0, answered = 0, cancelled = 0, refused = 0;
  int64_t no_room = 0, overtime = 0, past_deadline = 0;  // waited too long, took too long, too long for the client
  int64_t given_up = 0, aborted = 0, no_numbers = 0;     // with the workers; by an operator; broken draws
  int64_t changes = 0;                                   // of options, by an operator
};

/// A promise that did not hold. Broken invariants inside the core abort instead; so does a lack of progress.
struct Failure {
  std::string what;
};

/// Lives through one seed's scenario: the real engine, real frames, simulated workers, a virtual clock, and faults.
/// After every event the engine's invariants are recomputed from scratch; every client must get the oracle's tokens,
/// once each and in order, or the error that is due, when it is due; at the end nothing may be held. Throws Failure.
Outcome Simulate(uint64_t seed);

/// The same, saying what happens on standard output.
void Narrate(uint64_t seed);

}  // namespace quire::sim
