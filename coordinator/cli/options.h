#pragma once

#include "comm/topology/topology.h"
#include "coordinator/cli/serve_flags.h"

namespace quire {

/// Returns the settings of the topology file with the flags applied on top, not yet checked by ValidateTopology. Throws
/// Error, which names the file and line, or the flag.
Topology SettingsFromFlags(const ServeFlags& flags);

/// Returns the settings of the topology file with the flags applied on top, checked by ValidateTopology. Throws Error,
/// which names the file and line, or the flag.
Topology ValidSettingsFromFlags(const ServeFlags& flags);

/// Returns the validated settings of a server: finds the model, and makes the checks that only the coordinator can
/// make. Throws Error (exit status 2). Refuses, and never ignores, settings that this version cannot honour.
Topology TopologyFromFlags(const ServeFlags& flags);

}  // namespace quire
