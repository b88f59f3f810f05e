#pragma once

#include "comm/topology/topology.h"

namespace quire {

/// Runs a server until SIGTERM or SIGINT (a second one stops at once) or the loss of its workers. Returns the exit
/// status.
int Serve(const Topology& topology);

}  // namespace quire
