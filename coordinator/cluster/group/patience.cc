#include "coordinator/cluster/group/patience.h"

#include <algorithm>

namespace quire {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The number of threads that may delay a heartbeat by waking up late: the sending one, and socket threads on both ends.
constexpr int kLateWakesOfABeat = 4;
constexpr Patience kSilent = milliseconds(1500), kFirstBeat = seconds(20), kMostForBusyness = seconds(10);
constexpr Patience kLeastStep = seconds(5), kFirstStep = seconds(120), kMostForStarvation = seconds(60);

}  // namespace

Patience SilencePatience(Patience late_wakes) {
  return kSilent + std::min(kLateWakesOfABeat * late_wakes, kMostForBusyness);
}

Patience FirstBeatPatience() { return kFirstBeat; }

Patience StepPatience(double seconds_per_token, int num_tokens, Patience starved) {
  const std::chrono::duration<double> scaled(20 * seconds_per_token * num_tokens);
  const bool known = seconds_per_token != 0 && scaled < kFirstStep;
  const Patience usual = known ? std::chrono::duration_cast<Patience>(scaled) : kFirstStep;
  return std::max(kLeastStep, usual) + std::min(starved, kMostForStarvation);
}

}  // namespace quire
