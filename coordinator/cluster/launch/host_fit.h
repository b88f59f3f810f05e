#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Returns the reason why a host can never hold its ranks: weights plus the sizes in the topology exceed the memory
/// limit of the machine or of a control group. The text names sizes, limit and remedy. Empty when every host can hold
/// its ranks. `ranks`: ranks that have loaded, or the ranks of a plan.
std::string MemoryProblem(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks);

/// Returns warnings, one sentence each: about sizes that fit into a host but not into its free memory, about a memory
/// limit of requests (server.limits.memory_bytes) beyond this host's memory, and about more threads than processors.
std::vector<std::string> HostWarnings(const Topology& topology, BackendKind backend,
                                      const std::vector<RankInfo>& ranks);

}  // namespace quire
