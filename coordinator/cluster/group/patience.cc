#include "coordinator/cluster/group/patience.h"

#include <algorithm>

namespace quire {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The number of threads that may delay a heartbeat by waking up late: the sending thread, and socket threads on both
// ends.
constexpr int kLateWakesOfABeat = 4;
// The number of threads that may delay a step by waking up late, on the way of its plan and of its answer.
constexpr int kLateWakesOfAStep = 4;
// The number of late wakes, of messages and of threads, that may delay a start.
constexpr int kLateWakesOfAStart = 40;
constexpr Patience kSilent = milliseconds(1500), kFirstBeat = seconds(20), kMostForBusyness = seconds(10);
constexpr Patience kLeastStep = seconds(5), kFirstStep = seconds(120), kMostForStarvation = seconds(60);
// A heartbeat and an answer use different sockets, so one may overtake the other by some milliseconds.
constexpr Patience kLostFrame = milliseconds(900);
constexpr Patience kMostForStart = seconds(40);

}  // namespace

Patience SilencePatience(Patience late_wakes) {
  return kSilent + std::min(kLateWakesOfABeat * late_wakes, kMostForBusyness);
}

Patience FirstBeatPatience(Patience late_wakes) {
  return kFirstBeat + std::min(kLateWakesOfABeat * late_wakes, kMostForBusyness);
}

Patience LostFramePatience(Patience late_wakes, Patience starved) {
  return kLostFrame + std::min(kLateWakesOfAStep * late_wakes, kMostForBusyness) +
         std::min(starved, kMostForStarvation);
}

Patience DelayOfStart(Patience late_wakes) { return std::min(kLateWakesOfAStart * late_wakes, kMostForStart); }

StepSize SizeOf(const StepPlan& plan) {
  StepSize size;
  size.tokens = static_cast<double>(plan.decodes.size());
  for (const Draft& draft : plan.drafts) size.tokens += 1 + static_cast<double>(draft.tokens.size());
  size.decoded_pairs = static_cast<double>(plan.position_sum);  // the loop subtracts the chunks' positions
  for (const Chunk& chunk : plan.chunks) {
    size.decoded_pairs -= chunk.start;
    size.tokens += chunk.count;
    size.pairs += chunk.count * (chunk.start + 0.5 * (chunk.count + 1));
  }
  for (const Slice& slice : plan.slices) {
    size.tokens += slice.equivalent();
    size.pairs += slice.equivalent() * 0.5 * (slice.tokens + 1);  // as many as for a prompt computed as one chunk
  }
  return size;
}

void UsualTime::Observe(const StepSize& size, double seconds) {
  const auto mix = [](double& known, double seen) { known = known == 0 ? seen : 0.9 * known + 0.1 * seen; };
  mix(per_token_, seconds / size.tokens);
  if (size.pairs > 0) mix(per_pair_, seconds / size.pairs);
}

double UsualTime::Of(const StepSize& size) const {
  return std::max(per_token_ * size.tokens, per_pair_ * (size.pairs + size.decoded_pairs));
}

Patience StepPatience(double usual_seconds, Patience starved) {
  const std::chrono::duration<double> scaled(20 * usual_seconds);
  const bool known = usual_seconds != 0 && scaled < kFirstStep;
  const Patience usual = known ? std::chrono::duration_cast<Patience>(scaled) : kFirstStep;
  return std::max(kLeastStep, usual) + std::min(starved, kMostForStarvation);
}

}  // namespace quire
