#pragma once

#include <string>

#include "comm/topology/topology.h"

namespace quire {

/// Returns the limits that hold in this process. First raises the soft limit of file descriptors to the hard limit,
/// then lowers the limit of connections to what the descriptors allow, but not below 16. memory_bytes becomes what
/// MemoryOfRequests allows in this process's memory. memory_bytes_per_client, if unset, becomes half of memory_bytes,
/// or kLeastMemory if that is more.
Topology::Limits LimitsOfThisProcess(Topology::Limits wanted);

/// Returns a warning for the operator, with numbers and remedy, when `here` (from LimitsOfThisProcess(wanted)) allows
/// fewer connections than `wanted`. Otherwise returns "".
std::string DescriptorWarning(const Topology::Limits& wanted, const Topology::Limits& here);

}  // namespace quire
