#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Returns the reason why a host can never hold its ranks: the ranks' weights, the workers' other memory and the sizes
/// in the topology exceed the memory limit of the machine or of a control group. The text names sizes, limit and
/// remedy. On GPUs, each rank's KV memory must also fit into what its GPU has free. The result is empty when every host
/// can hold its ranks. `ranks`: ranks that have loaded, or the ranks of a plan. The memory for all models of a list
/// (models_memory) must stay within the same limit.
std::string MemoryProblem(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks);

/// Returns warnings, one sentence each: about sizes that fit into a host but not into its free memory, about memory
/// limits of requests (server.limits.memory_bytes) or adapters (lora.memory) beyond this host's memory, about
/// directories that may outgrow their file system, and about more threads than processors.
std::vector<std::string> HostWarnings(const Topology& topology, BackendKind backend,
                                      const std::vector<RankInfo>& ranks);

/// Returns a warning (one sentence) when models_memory, the bytes that all models of a list may take together, is more
/// than `free_bytes`, the bytes that are free on this host before any model is loaded. Otherwise returns "".
std::string ModelsMemoryWarning(const Topology& topology, int64_t free_bytes);

}  // namespace quire
