#pragma once

#include <chrono>

#include "comm/wire/step_plan.h"

namespace quire {

// The time that the coordinator waits before it considers a rank dead. Delays measured on busy machines extend the
// wait, but only up to a bound, because a dead rank must be found in any case.
using Patience = std::chrono::steady_clock::duration;

/// Returns the wait for a rank without heartbeats: 1.5 s plus 4 * late_wakes, which adds at most 10 s. A worker sends a
/// heartbeat every 250 ms, so on an idle machine a stopped worker is found within two seconds. late_wakes: the longest
/// recent delay of thread wake-ups on the rank's host.
Patience SilencePatience(Patience late_wakes);

/// Returns the wait for a rank's first heartbeat after its assignment: 20 s plus 4 * late_wakes, which adds at most
/// 10 s. The rank opens a connection for heartbeats, which may wait behind the connections of strangers (PortGate).
/// late_wakes: the longest recent delay of thread wake-ups on the coordinator's host, because the rank's is not known.
Patience FirstBeatPatience(Patience late_wakes);

/// Returns how long a rank may be idle although it owes an answer, before a frame counts as lost: 900 ms plus 4 *
/// late_wakes, which adds at most 10 s, plus `starved`, which adds at most 60 s. The plan and the answer are on their
/// way meanwhile, through two threads of each side. late_wakes: the longest recent delay of thread wake-ups on the
/// rank's host. starved: for how long the rank's computing thread waited for a core meanwhile.
Patience LostFramePatience(Patience late_wakes, Patience starved);

/// Returns how much longer than on an idle machine the ranks may take to start: 40 * late_wakes, at most 40 s. mpirun,
/// its daemons and the ranks themselves wake threads some tens of times before a rank joins. late_wakes: the longest
/// recent delay of thread wake-ups on the coordinator's host.
Patience DelayOfStart(Patience late_wakes);

/// The amount of a step's work. A slice counts as its part of the prompt's pass (Slice::equivalent).
struct StepSize {
  double tokens = 0;
  double pairs = 0;          // pairs of a prompt token and an earlier token
  double decoded_pairs = 0;  // the same for decoded tokens and drafts
};
StepSize SizeOf(const StepPlan& plan);

/// Learns how long steps take. The time of products with weights grows with StepSize::tokens, the time of attention
/// with pairs. The time of a pair is learned from prompts alone: a step that decodes after short contexts takes most of
/// its time for weights.
class UsualTime {
 public:
  void Observe(const StepSize& size, double seconds);
  /// Returns an upper bound of a step's usual time, in seconds; 0 before the first step. The bound holds for every
  /// division of the time between tokens and pairs.
  double Of(const StepSize& size) const;

 private:
  double per_token_ = 0, per_pair_ = 0;  // recent averages
};

/// Returns the wait for a rank that sends heartbeats but does not answer a step: 20 times usual_seconds, the usual time
/// of a step of this size, at least 5 s and at most 120 s; 120 s for the first step (usual_seconds 0). `starved`, which
/// adds up to 60 s, is the longest time in this step for which a rank's computing thread waited for a core.
Patience StepPatience(double usual_seconds, Patience starved);

}  // namespace quire
