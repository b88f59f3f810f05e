#pragma once

#include <cstdint>
#include <string>

namespace quire::sim {

struct Outcome {
  uint64_t trace_hash = 0;  // of every plan and every delivered token
  int64_t steps = 0, events = 0, preemptions = 0, swap_outs = 0, cached_tokens = 0, epochs = 0, finished = 0;
  int64_t ahead = 0, dropped = 0;  // steps planned with one outstanding; draws of sequences that had ended
  int64_t moved = 0, moved_bare = 0;  // requests that left and came back, with blocks and without
};

/// A promise that did not hold. Broken invariants inside the core abort instead; so does a lack of progress.
struct Failure {
  std::string what;
};

/// Lives through one seed's scenario: the real engine, real frames, simulated workers, a virtual clock, and faults.
/// After every event the engine's invariants are recomputed from scratch; every client must get the oracle's tokens,
/// once each and in order; everybody must be answered in bounded time; at the end nothing may be held. Throws Failure.
Outcome Simulate(uint64_t seed);

/// The same, saying what happens on standard output.
void Narrate(uint64_t seed);

}  // namespace quire::sim
