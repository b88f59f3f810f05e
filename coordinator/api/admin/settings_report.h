#pragma once

#include "comm/base/json_fwd.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/replicas/replica_snapshot.h"

namespace quire {

/// The settings that are in force, under the names of their flags (and of the topology's keys where there is no flag):
/// what was chosen where "auto" or nothing was given. `topology`: the server's, with the limits that hold in this
/// process. `replica` stands for all of them.
Json SettingsJson(const Topology& topology, const ReplicaSnapshot& replica);

}  // namespace quire
