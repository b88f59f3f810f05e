#pragma once

#include <string>
#include <vector>

#include "coordinator/core/engine/engine.h"
#include "tests/sim/oracle.h"
#include "tests/support/random.h"

namespace quire::sim {

/// The sequences of random numbers of a run. Each sequence has its own seed, so that a change in the use of one
/// sequence leaves the other sequences unchanged. Add a new sequence at the end, so that the runs of older seeds do not
/// change.
enum class Draws : uint64_t {
  kWorld = 1,
  kEvents,
  kPlanAhead,
  kOrder,
  kPoolSizes,
  kResizes,
  kMoves,
  kMigrations,
  kTroubles,
  kLimits,
  kMoreEvents,
  kCrowd,
  kFlood,
  kClientLimits,
  kScores,
  kPooling,
  kStates,
  kChanges,
  kWays,
  kOptions,
  kDrafts,
  kAdapters,
  kBackground,
  kWholePrompts,
  kDisk,
  kContexts,
  kLaterAdapters,
  kDraftModel,
  kGuesses,
  kStages,
  kMustPay,
  kHostCache,
  kFiles,
};
/// Returns the sequence of random numbers `draws` of the run with this seed.
test::Random RandomOf(uint64_t seed, Draws draws);

/// Probabilities of faults in each step. The seed chooses the faults whose probability is above 0 (swarm testing), so
/// that rare combinations occur.
struct Faults {
  double worker_dies = 0;        // a worker dies before or after it computes
  double frame_is_damaged = 0;   // probability that one bit of a plan is flipped
  double frame_is_repeated = 0;  // a plan arrives twice
  double answer_is_lost = 0;
  double answer_is_wrong = 0;  // an answer has a wrong token hash
  double clock_jumps = 0;      // the clock jumps, as after the machine has slept
  double no_new_group = 0;     // probability that no new group follows a loss; all clients then get an error
  double no_numbers = 0;       // a row to sample from has no valid logits
  RequestId poison = 0;        // workers die whenever they compute this request; 0: none

  /// True when groups may be lost.
  bool any() const {
    return worker_dies + frame_is_damaged + frame_is_repeated + answer_is_lost + answer_is_wrong > 0 || poison != 0;
  }
};

/// Probabilities of events between calls of the engine.
struct Interference {
  double cancel = 0, flush = 0, pin = 0, unpin = 0;
  double migrate = 0;  // a request leaves the engine and comes back later, as if to another engine
  double abort = 0;    // an operator aborts a request
  double change = 0;   // an operator changes options
};

/// Requests name adapters 1 to kMostAdapters, or none. In runs whose adapters are loaded while requests run
/// (later_adapters), the numbers start at kMostListedAdapters + 1.
inline constexpr int kMostAdapters = 2;

/// A request and its arrival time.
struct Arrival {
  double seconds = 0;
  Ask ask;
  std::string client, cache_salt;
  int priority = 0;
  bool background = false;
};

/// All parameters of a simulated run, chosen at random from one seed.
struct Scenario {
  EngineOptions engine;
  int num_workers = 1;
  /// The probability that a step is planned while the previous one is outstanding. Other events then also happen
  /// between plan and result. 0: one step at a time, without other events before its result.
  double plan_ahead = 0;
  double resize = 0;     // probability that a new epoch changes the pools' sizes
  double restage = 0;    // probability that a new epoch has another number of stages
  double shrink = 0;     // probability that new pools are too small for some request
  int drafts_right = 0;  // percentage of right drafts, in runs with speculation
  int guesses_late = 0;  // percentage of a draft model's drafts that never come, or come a step late
  Faults faults;
  Interference interference;
  std::vector<Arrival> arrivals;  // sorted by time
  /// True when one client floods the engine and others send short requests. Clients then do not share cached blocks, as
  /// in the real server.
  bool own_salts = false;
  /// True when adapters are loaded and unloaded while requests run.
  bool later_adapters = false;
};

Scenario MakeScenario(uint64_t seed);

}  // namespace quire::sim
