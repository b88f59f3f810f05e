#pragma once

#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// Returns `base` with the changed settings. Reads values as from a topology file, with the same errors, but does not
/// call ValidateTopology. The lists models, adapters, model.name and transport.mpi_ports replace the existing ones.
/// Entries of other lists and of server.key_limits are added to the existing ones.
Topology WithSettings(Topology base, const std::vector<SettingOverride>& changes);

}  // namespace quire
