#pragma once

#include "comm/topology/topology.h"
#include "coordinator/cli/serve_flags.h"

namespace quire {

/// The topology file with the flags applied on top, before ValidateTopology. Throws Error that names the file and line,
/// or the flag.
Topology SettingsFromFlags(const ServeFlags& flags);

/// The same settings, validated.
Topology ValidSettingsFromFlags(const ServeFlags& flags);

/// The same, with what only the coordinator knows checked, and with the model found. Throws Error (exit status 2).
/// Settings that this version cannot honour are refused, never ignored.
Topology TopologyFromFlags(const ServeFlags& flags);

}  // namespace quire
