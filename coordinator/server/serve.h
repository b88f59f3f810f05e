#pragma once

#include <functional>

#include "comm/topology/topology.h"

namespace quire {

/// Runs a server until SIGTERM or SIGINT, or until its workers are lost for good. A second signal stops the server
/// without waiting for requests. Returns the exit status. `read_again`: returns the operator's settings as they are at
/// the call, for SIGHUP (SettingsFile).
int Serve(const Topology& topology, const std::function<Topology()>& read_again);

}  // namespace quire
