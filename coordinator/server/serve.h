#pragma once

#include <functional>

#include "comm/topology/topology.h"

namespace quire {

/// Runs a server until SIGTERM or SIGINT, or until all its workers are lost. A second signal stops the server
/// immediately. Returns the exit status. `read_again` reads and returns the operator's current settings, for SIGHUP
/// (SettingsFile).
int Serve(const Topology& topology, const std::function<Topology()>& read_again);

}  // namespace quire
