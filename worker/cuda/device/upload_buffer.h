#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "worker/cuda/device/device.h"

namespace quire {

/// Copies small arrays to the device. There are two sets of staging memory, one for the current step and one for the
/// previous step, which may still run.
template <class T>
class UploadBuffer {
 public:
  UploadBuffer(Device& device, int64_t capacity, const std::string& purpose)
      : device_(device),
        capacity_(capacity),
        staging_{device.AllocateHost(capacity * kSize, purpose), device.AllocateHost(capacity * kSize, purpose)},
        on_device_(device.Allocate(capacity * kSize, purpose)) {}

  int64_t capacity() const { return capacity_; }

  /// Lets Send use the set again without waiting. Call this when everything that was sent from the set has arrived.
  void Reset(int set) { sent_[set] = false; }

  /// Queues the copy of at most capacity() values. The returned device array is valid until the next Send. A second
  /// Send from the same set first waits for the device.
  const T* Send(std::span<const T> values, int set) {
    if (sent_[set]) device_.Synchronize();
    sent_[set] = true;
    std::copy(values.begin(), values.end(), staging_[set].template as<T>());
    device_.CopyToDevice(on_device_.as(), staging_[set].as(), static_cast<int64_t>(values.size()) * kSize);
    return on_device_.template as<T>();
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  Device& device_;
  int64_t capacity_;
  DeviceMemory staging_[2], on_device_;
  bool sent_[2] = {};
};

}  // namespace quire
