#pragma once

#include <array>
#include <atomic>
#include <mutex>

namespace quire::kernels {

/// How much shared memory a driver lets the blocks of one kernel have, on each device. Telling the driver takes its
/// lock, and a smaller number would undo what another thread is about to launch with: so it is told larger ones only.
class SharedMemoryLimit {
 public:
  /// Returns when blocks may have so many bytes on the device: raise() tells the driver, unless it was told as much.
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
