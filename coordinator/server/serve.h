#pragma once

#include <functional>

#include "comm/topology/topology.h"

namespace quire {

/// Runs a server until SIGTERM or SIGINT, or until all its workers are lost. A second signal stops at once.
/// Returns the exit status. `read_again` returns the operator's settings as they are now, for SIGHUP (SettingsFile).
int Serve(const Topology& topology, const std::function<Topology()>& read_again);

}  // namespace quire
