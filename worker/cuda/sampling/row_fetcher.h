#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/device.h"
#include "worker/sampling/pooler.h"

namespace quire {

/// Copies rows of activations from the device to the host and converts them to floats.
class RowFetcher {
 public:
  /// Fetches rows of `hidden` numbers of type `dtype`. The device must outlive this object.
  RowFetcher(Device& device, NumberType dtype, int64_t hidden);

  /// Copies `count` rows (at most Pooler::kPooledAtOnce) from `rows` on the device. Returns [count, hidden], which is
  /// valid until the next call. Waits for everything that was queued before.
  std::span<const float> Fetch(const std::byte* rows, int64_t count);

 private:
  Device& device_;
  NumberType dtype_;
  int64_t hidden_;
  DeviceMemory staging_;  // page-locked
  std::vector<float> values_;
};

}  // namespace quire
