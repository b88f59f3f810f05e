#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Why a host cannot hold what the topology's sizes and the weights of its ranks come to, in any state of the host: the
/// sum exceeds what the machine, or a control group there, lets them hold. Names the sizes, the limit and the remedy.
/// Empty where every host can. The ranks have said what they have and loaded, or a plan has worked that out.
std::string MemoryProblem(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks);

/// What may go wrong on the hosts, a sentence each: sizes that fit into a host but not into what is free there now, an
/// allowance of requests that its host cannot hold, more threads than processors.
std::vector<std::string> HostWarnings(const Topology& topology, BackendKind backend,
                                      const std::vector<RankInfo>& ranks);

}  // namespace quire
