// Engine's functions for LoRA adapters that are loaded while the server runs. A request is in the scheduler only while
// all ranks have its adapter.
#include <algorithm>

#include "coordinator/core/engine/engine.h"

namespace quire {

/// Takes a request out of the scheduler, because the ranks lack its adapter, or because it is a background request that
/// must wait for requests of another kind.
void Engine::SetAside(Request& request) {
  scheduler_.SetAside(request);
  request.set_aside = true;
}

void Engine::SetAsideWithoutAdapter() {
  for (const auto& [id, request] : requests_) {
    if (!request->set_aside && !HasAdapter(request->adapter)) SetAside(*request);
  }
}

/// True when every request is set aside: it waits until the ranks have its adapter, or, as a background request, until
/// all other requests have ended.
bool Engine::AllSetAside() const {
  return std::ranges::all_of(requests_, [](const auto& entry) { return entry.second->set_aside; });
}

void Engine::Do(const command::AdapterCame& c) {
  Tell(c);
  adapters_.insert(c.adapter);
  for (const auto& [id, request] : requests_) {
    if (!request->set_aside || request->adapter != c.adapter || MakesWay(*request)) continue;
    request->set_aside = false;
    scheduler_.TakeUp(*request);
  }
}

void Engine::Do(const command::AdapterGone& c) {
  Tell(c);
  adapters_.erase(c.adapter);
  SetAsideWithoutAdapter();
}

}  // namespace quire
