#pragma once

#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// `base` with other values for the keys that `changes` name, read and refused as from a file, but for what no single
/// key can tell (ValidateTopology). Lists, and entries of server.key_limits, are added to.
Topology WithSettings(Topology base, const std::vector<SettingOverride>& changes);

}  // namespace quire
