#pragma once

#include <string>

#include "comm/topology/compute_settings.h"

namespace quire {

/// Fails when the settings ask for what the backend, kCpu or kCuda, can't do. why: what led to that backend.
void CheckBackendSettings(const ComputeSettings& asked, BackendKind backend, const std::string& why);

}  // namespace quire
