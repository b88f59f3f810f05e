// Background requests: they are in the scheduler only while no request of another kind is in the engine.
#include "coordinator/core/engine/engine.h"

namespace quire {

/// True for a background request while others are there.
bool Engine::MakesWay(const Request& added) const { return added.background && HasOthers(); }

/// Prepares the entry of a request that is in requests_ already. True: the request stays set aside, because it is a
/// background one and others are there, or because the ranks lack its adapter. Else it may enter the scheduler, which
/// no background request uses beside it.
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

/// Before a plan: when only background requests are left, they enter the scheduler.
void Engine::TakeUpBackground() {
  if (HasOthers()) return;
  for (const RequestId id : background_) {
    Request& request = *requests_.at(id);
    if (!request.set_aside || !HasAdapter(request.adapter)) continue;
    request.set_aside = false;
    scheduler_.TakeUp(request);
  }
}

/// Takes a request that ends out of the scheduler. A request that is set aside is not in the scheduler.
void Engine::LeaveScheduler(Request& request) {
  if (!request.set_aside) scheduler_.Drop(request);
}

}  // namespace quire
