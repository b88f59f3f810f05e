#pragma once

#include <chrono>

namespace quire {

// How long the coordinator waits before it considers a rank dead. Delays measured on busy machines extend the wait, but
// only up to a bound, because a dead rank must be found in any case.
using Patience = std::chrono::steady_clock::duration;

/// Returns the wait for a rank without heartbeats: 1.5 s plus 4 * late_wakes, which adds at most 10 s. A worker sends a
/// heartbeat every 250 ms, so on an idle machine a stopped worker is found within two seconds. late_wakes: the longest
/// recent delay of thread wake-ups on the rank's host.
Patience SilencePatience(Patience late_wakes);

/// Returns the wait for a rank's first heartbeat after its assignment: 20 s. The rank opens a connection for
/// heartbeats, which may wait behind the connections of strangers (PortGate).
Patience FirstBeatPatience();

/// Returns the wait for a rank that sends heartbeats but does not answer a step: 20 times the recent time of a step of
/// this size, at least 5 s and at most 120 s; 120 s for the first step (seconds_per_token 0). `starved` adds up to 60
/// s: it is the longest time in this step for which a rank's computing thread waited for a core.
Patience StepPatience(double seconds_per_token, int num_tokens, Patience starved);

}  // namespace quire
