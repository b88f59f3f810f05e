// Engine's functions for background requests of batches, which are in the scheduler only while no request of another
// kind is in the engine.
#include "coordinator/core/engine/engine.h"

namespace quire {

/// True for a background request while requests of another kind are in the engine.
bool Engine::MakesWay(const Request& added) const { return added.background && HasOthers(); }

/// Keeps a new request of requests_ out of the scheduler, and returns true, if the ranks lack its adapter, or if it is
/// a background request while other requests are in the engine. Otherwise returns false: the request may enter the
/// scheduler. Also adds a new background request to background_. For any other new request, takes all background
/// requests out of the scheduler.
bool Engine::StaysAside(Request& added) {
  if (added.background) background_.insert(added.id);
  if (!added.background) {
    for (const RequestId id : background_) {
      if (!requests_.at(id)->set_aside) SetAside(*requests_.at(id));
    }
  }
  if (!MakesWay(added) && HasAdapter(added.adapter)) return false;
  added.set_aside = true;
  decisions_.OnDecision({DecisionKind::kSetAside, added.id});
  return true;
}

/// When only background requests are left, moves them into the scheduler, except requests with adapters that the ranks
/// lack. Call it before each plan.
void Engine::TakeUpBackground() {
  if (HasOthers()) return;
  for (const RequestId id : background_) {
    Request& request = *requests_.at(id);
    if (!request.set_aside || !HasAdapter(request.adapter)) continue;
    request.set_aside = false;
    scheduler_.TakeUp(request);
  }
}

/// Takes a request that ends out of the scheduler. A request that is set aside is already out of it.
void Engine::LeaveScheduler(Request& request) {
  if (!request.set_aside) scheduler_.Drop(request);
}

}  // namespace quire
