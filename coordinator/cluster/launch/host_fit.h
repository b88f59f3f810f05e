#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Returns the reason why a host can never hold its ranks: weights plus the sizes in the topology exceed the limit of
/// the machine or of a control group. Names sizes, limit and remedy. Empty when every host can. `ranks` comes from
/// ranks that have loaded, or from a plan.
std::string MemoryProblem(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks);

/// Returns warnings, a sentence each: sizes that fit into a host but not into its free memory, a memory limit of
/// requests (server.limits.memory_bytes) beyond this host's memory, more threads than processors.
std::vector<std::string> HostWarnings(const Topology& topology, BackendKind backend,
                                      const std::vector<RankInfo>& ranks);

}  // namespace quire
