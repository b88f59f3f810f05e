#pragma once

#include <string>
#include <vector>

#include "coordinator/core/engine.h"
#include "tests/sim/oracle.h"
#include "tests/support/random.h"

namespace quire::sim {

/// Probabilities, per step, of what goes wrong. A seed draws which of them are above 0 at all (swarm testing), so that
/// rare combinations are met.
struct Faults {
  double worker_dies = 0;        // before or after it computed
  double frame_is_damaged = 0;   // one bit of a plan
  double frame_is_repeated = 0;  // a plan arrives twice
  double answer_is_lost = 0;
  double answer_is_wrong = 0;  // another hash
  double clock_jumps = 0;      // the machine slept
  double no_new_group = 0;     // after a loss: everybody is told so
  double no_numbers = 0;       // a draw is none
  RequestId poison = 0;        // workers die whenever they compute this request; 0: none

  /// True when groups may be lost.
  bool any() const {
    return worker_dies + frame_is_damaged + frame_is_repeated + answer_is_lost + answer_is_wrong > 0 || poison != 0;
  }
};

/// Things that happen between calls of the engine.
struct Interference {
  double cancel = 0, flush = 0, pin = 0, unpin = 0;
  double migrate = 0;  // a request leaves the engine, and comes back later as if to another one
  double abort = 0;    // by an operator
  double change = 0;   // of options, by an operator
};

/// A request and when it comes.
struct Arrival {
  double seconds = 0;
  Ask ask;
  std::string client, cache_salt;
  int priority = 0;
};

/// Everything a simulated life is made of, drawn from one seed.
struct Scenario {
  EngineOptions engine;
  int num_workers = 1;
  /// Probability that a step is planned while the one before it is outstanding; what else happens then happens between
  /// plan and result, too. 0: one step at a time, and nothing happens inside it.
  double plan_ahead = 0;
  double resize = 0;  // probability that a new epoch brings pools of other sizes
  double shrink = 0;  // probability that such pools are too small for somebody
  Faults faults;
  Interference interference;
  std::vector<Arrival> arrivals;  // by time
  /// One client floods and others come with short requests; no client shares cached blocks with another one, as in the
  /// real server.
  bool own_salts = false;
};

Scenario MakeScenario(uint64_t seed);

}  // namespace quire::sim
