#pragma once

#include <string>

#include "comm/topology/topology.h"

namespace quire {

/// Returns the limits that hold in this process. Connections are capped by the file descriptors; the soft limit of
/// descriptors is raised to the hard limit first. A client's share of the memory, if unset, becomes half of the memory,
/// or the least allowed value.
Topology::Limits LimitsOfThisProcess(Topology::Limits wanted);

/// Returns a warning for the operator, with numbers and remedy, when `here` (from LimitsOfThisProcess(wanted)) allows
/// fewer connections than `wanted`. Empty otherwise.
std::string DescriptorWarning(const Topology::Limits& wanted, const Topology::Limits& here);

}  // namespace quire
