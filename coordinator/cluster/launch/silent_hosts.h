#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/cluster/launch/placement.h"

namespace quire {

/// Returns the hosts that were lost together, such as the hosts of a rack. The ranks of such a host sent their last
/// heartbeat at least 600 ms before the latest heartbeat of the group, and `answers` is false for the host. Calls
/// `answers` for all such hosts at the same time, on several threads. `placement` says which ranks are on which of the
/// nodes.
std::vector<std::string> SilentHosts(const std::vector<Topology::Node>& nodes, const std::vector<NodeRanks>& placement,
                                     const std::vector<RankInfo>& ranks,
                                     const std::function<bool(const std::string& host)>& answers);

}  // namespace quire
