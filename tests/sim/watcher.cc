#include "tests/sim/watcher.h"

#include "comm/error.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

void Watcher::OnDecision(const Decision& d) {
  if (aloud_) fmt::print("  {}\n", Describe(d));
  switch (d.kind) {
    case DecisionKind::kPreemptedRecompute:
    case DecisionKind::kPreemptedSwap:
      OnPreempted(d);
      break;
    case DecisionKind::kAdmitted:
    case DecisionKind::kReadmitted:
    case DecisionKind::kSwappedIn:
      turns_.Admitted(d.request, engine_.requests());
      if (engine_.scheduler().num_running() > 1) admitted_beside_others = true;
      break;
    case DecisionKind::kHeldForSlots:
    case DecisionKind::kHeldForBlocks:
      turns_.Held(d.request, engine_.requests());
      break;
    case DecisionKind::kPinsBroken:
      if (engine_.scheduler().num_running() > 1) throw Failure{"pins give way to a request that is not alone"};
      pins_broken = true;
      break;
    case DecisionKind::kFinished:
      if (!ended_.insert({d.request, d.a}).second) throw Failure{"ends twice"};
      break;
    default:
      break;
  }
}

void Watcher::OnPreempted(const Decision& d) {
  const Request &victim = *engine_.requests().at(d.request), &cause = *engine_.requests().at(d.cause);
  if (Senior(victim, cause)) throw Failure{fmt::format("request {} is preempted for a junior", d.request)};
  if (&victim == engine_.scheduler().running().front()) throw Failure{"the most senior request is preempted"};
  if (engine_.num_outstanding() > 0) throw Failure{"somebody is preempted while a step is outstanding"};
  const bool swapped = d.kind == DecisionKind::kPreemptedSwap;
  const bool may_swap = d.b > 0 && d.b <= engine_.blocks().host_pool().num_free();  // of one that is computed again
  if (swapped ? mode_ == PreemptionMode::kRecompute : mode_ == PreemptionMode::kSwap && may_swap)
    throw Failure{fmt::format("request {} is preempted in the way that was not asked for", d.request)};
  preempted_in_step = true;
  turns_.Preempted(d.request);
  swapped ? judge_.SwappedOut(d.request) : judge_.Restarts(d.request);
}

}  // namespace quire::sim
