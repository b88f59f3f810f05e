#pragma once

#include <optional>

#include "coordinator/cluster/replicas/replica.h"

namespace quire {

// What a replica does before its workers end or sleep. The functions wait, until `end_seconds` of EngineLoop::Now at
// the latest, for the engine's thread, and so run on another one.

/// Waits until the store has every cached block and every kept state, or takes no more of them.
void FinishSaving(Replica& replica, double end_seconds);
/// Gives memory of an idle replica's blocks back to the system: of all blocks if the store has what they cache and none
/// is pinned, else of those that cache nothing. Returns the bytes of the others, of all ranks; nothing if the engine's
/// thread did not answer in time.
std::optional<int64_t> FreeMemory(Replica& replica, double end_seconds);

}  // namespace quire
