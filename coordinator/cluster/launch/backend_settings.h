#pragma once

#include <string>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"

namespace quire {

/// Throws Error when the settings ask for something that the backend (kCpu or kCuda) cannot do. `why`: the reason why
/// this backend was chosen, for the message.
void CheckBackendSettings(const Topology& topology, BackendKind backend, const std::string& why);

/// Returns the type that ActivationType::kAuto means on the CPU: int8 when most numbers in the layers' matrices have
/// few bits, as stored or as loaded; otherwise int16. The bits of a number include its part of the scales.
ActivationType ActivationsFor(const ModelFiles& model, Quantization quantization);

/// Returns the type that KvCacheDtype::kAuto means on the CPU: float16 when most numbers in the layers' matrices have
/// at most 16 bits, as stored or as loaded; otherwise, and for encoders, float32.
KvCacheDtype KvCacheDtypeFor(const ModelFiles& model, Quantization quantization);

/// Replaces kAuto in dtype, activations and KV cache by the default for this model on the CPU. With `exact` the
/// defaults are float32, int16 and float32.
void SettleForCpu(bool exact, const ModelFiles& model, ComputeSettings& settings);

/// Returns a line for the log: the types of the KV cache and of activations on the CPU, and whether each was asked for
/// or is a default. If the KV cache has the default float16, the line also says what this costs and how to avoid it.
std::string DescribeNumbers(const Topology& asked, const ComputeSettings& settled);

}  // namespace quire
