#pragma once

#include <functional>
#include <optional>

#include "worker/cuda/device/device.h"

namespace quire {

/// Returns the median seconds of the work that `queue` queues, measured in a graph of several calls, as in steps:
/// single launches would cost more than small kernels take. Returns nullopt if `queue` returns false. Must not run
/// during a graph's capture.
std::optional<double> MedianSeconds(Device& device, const std::function<bool()>& queue);

}  // namespace quire
