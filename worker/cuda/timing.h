#pragma once

#include <functional>
#include <optional>

#include "worker/cuda/device.h"

namespace quire {

/// Median seconds that the device takes for what `queue` queues, in a graph of several calls of it, as steps have it:
/// launches one by one would cost more than small kernels take. Nothing comes back when `queue` says false. Not while
/// a graph is recorded.
std::optional<double> MedianSeconds(Device& device, const std::function<bool()>& queue);

}  // namespace quire
