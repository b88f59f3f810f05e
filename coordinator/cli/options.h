#pragma once

#include "comm/topology/topology.h"
#include "coordinator/cli/serve_flags.h"

namespace quire {

/// The topology file with the flags laid over it, before ValidateTopology. Throws Error that names file and line, or
/// the flag.
Topology SettingsFromFlags(const ServeFlags& flags);

/// The same, validated, and its model found. Throws Error (exit status 2); settings that this version cannot honour are
/// refused, never ignored.
Topology TopologyFromFlags(const ServeFlags& flags);

}  // namespace quire
