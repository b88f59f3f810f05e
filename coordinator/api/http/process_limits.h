#pragma once

#include <string>

#include "comm/topology/topology.h"

namespace quire {

/// The limits that hold here, where they follow from others: no more connections than this process has descriptors for
/// (it takes all it may have), and a client's part of the memory.
Topology::Limits LimitsOfThisProcess(Topology::Limits wanted);

/// A sentence for the operator when `here`, which LimitsOfThisProcess made of `wanted`, allows fewer connections, with
/// the numbers and the remedy; empty when it does not.
std::string DescriptorWarning(const Topology::Limits& wanted, const Topology::Limits& here);

}  // namespace quire
