#pragma once

#include "comm/topology/topology.h"

namespace quire {

/// Runs a server until SIGTERM or SIGINT, or until its workers are lost for good. A second signal stops at once.
/// Returns the exit status.
int Serve(const Topology& topology);

}  // namespace quire
