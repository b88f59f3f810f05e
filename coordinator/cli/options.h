#pragma once

#include "comm/topology/topology.h"
#include "coordinator/cli/serve_flags.h"

namespace quire {

/// Returns the topology file with the flags applied on top, before ValidateTopology. Throws Error that names the file
/// and line, or the flag.
Topology SettingsFromFlags(const ServeFlags& flags);

/// Returns the topology file with the flags applied on top, checked by ValidateTopology. Throws Error that names the
/// file and line, or the flag.
Topology ValidSettingsFromFlags(const ServeFlags& flags);

/// Returns the validated settings of a server: finds the model, and makes the checks that only the coordinator can
/// make. Throws Error (exit status 2). Settings that this version cannot honour are refused, never ignored.
Topology TopologyFromFlags(const ServeFlags& flags);

}  // namespace quire
