#pragma once

#include <string>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"

namespace quire {

/// Throws Error when the settings ask for something that the backend (kCpu or kCuda) cannot do. `why`: the reason for
/// the backend, for the message.
void CheckBackendSettings(const Topology& topology, BackendKind backend, const std::string& why);

/// The meaning of ActivationType::kAuto on the CPU: int8 when most numbers in the layers' matrices have about 4 bits,
/// as stored or as loaded; otherwise int16.
ActivationType ActivationsFor(const ModelFiles& model, Quantization quantization);

}  // namespace quire
