#pragma once

#include <array>
#include <atomic>
#include <mutex>

namespace quire::kernels {

/// The shared memory that the driver allows one kernel's thread blocks to use, for each device. The limit is never
/// lowered, because a lower limit would break a launch that another thread is about to make. The limit is raised only
/// when a kernel needs more, because the driver's call takes the driver's lock.
class SharedMemoryLimit {
 public:
  /// Returns once thread blocks on the device may use `bytes` bytes. If the present limit is lower, calls raise(),
  /// which tells the driver the new limit.
  template <class Raise>
  void Allow(int device, int bytes, Raise raise) {
    std::atomic<int>& allowed = allowed_.at(static_cast<size_t>(device));
    if (allowed.load(std::memory_order_acquire) >= bytes) return;
    const std::lock_guard lock(mutex_);
    if (allowed.load(std::memory_order_relaxed) >= bytes) return;
    raise();
    allowed.store(bytes, std::memory_order_release);
  }

 private:
  static constexpr size_t kMostDevices = 128;

  std::mutex mutex_;
  std::array<std::atomic<int>, kMostDevices> allowed_{};
};

}  // namespace quire::kernels
