#pragma once

#include <optional>

#include "coordinator/cluster/replicas/replica.h"

namespace quire {

// These functions prepare a replica whose workers will end or sleep. The functions wait for the engine's thread, at
// most until `end_seconds` on the clock of EngineLoop::Now, so they must be called on another thread.

/// Waits until the store has every cached block and every checkpoint of a state, or has stopped writing.
void FinishSaving(Replica& replica, double end_seconds);
/// Gives memory of an idle replica's blocks back to the system. Frees all blocks if the store has every cached block
/// and no block is pinned; otherwise frees only the blocks that cache nothing. Returns the bytes of the device blocks
/// that stay, summed over all ranks; nullopt if the engine's thread did not answer in time.
std::optional<int64_t> FreeMemory(Replica& replica, double end_seconds);

}  // namespace quire
