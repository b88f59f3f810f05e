#pragma once

#include <chrono>

namespace quire {

// How long the coordinator waits before it takes a rank for dead. A busy machine is not a dead one: what was measured
// of its delays is allowed for, up to a bound, since a dead rank must be found whatever the machine does.
using Patience = std::chrono::steady_clock::duration;

/// With a rank that does not beat. A worker beats every 250 ms, so a stopped one is found well within two seconds.
/// late_wakes: how late its host woke its threads lately, at most.
Patience SilencePatience(Patience late_wakes);

/// With a rank that beats but does not answer a step: 20 times what a step of that size took lately, 5 s at least and
/// 120 s at most, which is what the first gets, of which nothing is known (seconds_per_token 0). starved: how long
/// since the step began the rank whose thread waited longest for a core did so.
Patience StepPatience(double seconds_per_token, int num_tokens, Patience starved);

}  // namespace quire
