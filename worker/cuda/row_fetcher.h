#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device.h"
#include "worker/sampling/pooler.h"

namespace quire {

/// Brings rows of activations from the device to the host, as floats.
class RowFetcher {
 public:
  /// Rows of `hidden` numbers of type `dtype`. The device outlives it.
  RowFetcher(Device& device, NumberType dtype, int64_t hidden);

  /// `count` rows at `rows` on the device, at most Pooler::kPooledAtOnce: [count, hidden], valid until the next call.
  /// Waits for all that is queued.
  std::span<const float> Fetch(const std::byte* rows, int64_t count);

 private:
  Device& device_;
  NumberType dtype_;
  int64_t hidden_;
  DeviceMemory staging_;  // page-locked
  std::vector<float> values_;
};

}  // namespace quire
