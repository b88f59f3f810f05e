#pragma once

#include <string>

#include "comm/topology/topology.h"

namespace quire {

/// Fails when the settings ask for what the backend, "cpu" or "cuda", can't do. why: what led to that backend.
void CheckBackendSettings(const Topology& topology, const std::string& backend, const std::string& why);

}  // namespace quire
