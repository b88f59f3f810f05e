#pragma once

#include <functional>
#include <optional>

#include "worker/cuda/device/device.h"

namespace quire {

/// Returns the median seconds of the work that `queue` queues. The time is measured in a graph of several calls, as
/// steps use them, because a single launch takes longer than a small kernel. Returns nullopt if `queue` returns false.
/// Must not run while a graph is captured.
std::optional<double> MedianSeconds(Device& device, const std::function<bool()>& queue);

}  // namespace quire
