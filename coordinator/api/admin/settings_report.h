#pragma once

#include "comm/base/json_fwd.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/replicas/replica_snapshot.h"

namespace quire {

/// Returns the settings in force. A setting's name is its flag, or the topology's key where there is no flag. Where the
/// operator gave "auto" or no value, the report has the chosen value. `topology`: the server's topology, with the
/// limits of this process. `replica`: a snapshot of the replica whose chosen values are reported.
Json SettingsJson(const Topology& topology, const ReplicaSnapshot& replica);

}  // namespace quire
