#pragma once

#include <functional>
#include <optional>

#include "worker/cuda/device.h"

namespace quire {

/// Median seconds that the device takes for what `queue` queues, after one run to warm up. Nothing comes back
/// when `queue` says false. Not while a graph is recorded.
std::optional<double> MedianSeconds(Device& device, const std::function<bool()>& queue);

}  // namespace quire
