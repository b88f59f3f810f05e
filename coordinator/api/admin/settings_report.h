#pragma once

#include "comm/base/json_fwd.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/replicas/replica_snapshot.h"

namespace quire {

/// Returns the settings in force under the names of their flags, or of the topology's keys where there is no flag.
/// Where "auto" or no value was given, the report has the chosen value. `topology`: the server's topology, with the
/// limits of this process. `replica`: a snapshot of the replica whose chosen values are reported.
Json SettingsJson(const Topology& topology, const ReplicaSnapshot& replica);

}  // namespace quire
