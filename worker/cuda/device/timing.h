#pragma once

#include <functional>
#include <optional>

#include "worker/cuda/device/device.h"

namespace quire {

/// Returns the median seconds of the work that `queue` queues. Measures a graph of several calls: steps use graphs,
/// too, and a single launch takes longer than a small kernel. Returns nullopt if `queue` returns false. Must not run
/// while a graph is captured.
std::optional<double> MedianSeconds(Device& device, const std::function<bool()>& queue);

}  // namespace quire
