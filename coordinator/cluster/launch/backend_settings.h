#pragma once

#include <string>

#include "comm/model/model_files.h"
#include "comm/topology/compute_settings.h"

namespace quire {

/// Fails when the settings ask for what the backend, kCpu or kCuda, can't do. why: what led to that backend.
void CheckBackendSettings(const ComputeSettings& asked, BackendKind backend, const std::string& why);

/// What ActivationType::kAuto comes to on the CPU: 8 bits where most numbers of the layers' matrices have about 4 bits
/// themselves, as stored or as they are loaded, else 16.
ActivationType ActivationsFor(const ModelFiles& model, Quantization quantization);

}  // namespace quire
