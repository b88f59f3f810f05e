#pragma once

#include <optional>

#include "coordinator/cluster/replicas/replica.h"

namespace quire {

// What a replica does before its workers end or sleep. The functions wait for the engine's thread, at the latest until
// `end_seconds` on the clock of EngineLoop::Now. So call the functions on another thread.

/// Waits until the store has every cached block and every kept state, or has stopped writing.
void FinishSaving(Replica& replica, double end_seconds);
/// Gives memory of an idle replica's blocks back to the system: of all blocks if the store has what they cache and none
/// is pinned, else only of blocks that cache nothing. Returns the bytes of the blocks that stay, summed over all ranks;
/// nullopt if the engine's thread did not answer in time.
std::optional<int64_t> FreeMemory(Replica& replica, double end_seconds);

}  // namespace quire
