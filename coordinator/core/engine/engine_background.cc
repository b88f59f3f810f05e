// Background requests: they are in the scheduler only while no request of another kind is in the engine.
#include "coordinator/core/engine/engine.h"

namespace quire {

/// Prepares the entry of a request that is in requests_ already. True: the request is a background one, others are
/// there, and it stays set aside. Else it may enter the scheduler, which no background request uses beside it.
bool Engine::MakesWay(Request& added) {
  if (added.background) background_.insert(added.id);
  if (added.background && HasOthers()) {
    added.set_aside = true;
    decisions_.OnDecision({DecisionKind::kSetAside, added.id});
    return true;
  }
  if (added.background) return false;
  for (const RequestId id : background_) {
    Request& request = *requests_.at(id);
    if (request.set_aside) continue;
    scheduler_.SetAside(request);
    request.set_aside = true;
  }
  return false;
}

/// Before a plan: when only background requests are left, they enter the scheduler.
void Engine::TakeUpBackground() {
  if (HasOthers()) return;
  for (const RequestId id : background_) {
    Request& request = *requests_.at(id);
    if (!request.set_aside) continue;
    request.set_aside = false;
    scheduler_.TakeUp(request);
  }
}

/// Takes a request that ends out of the scheduler. A request that is set aside is not in the scheduler.
void Engine::LeaveScheduler(Request& request) {
  if (!request.set_aside) scheduler_.Drop(request);
}

}  // namespace quire
