#pragma once

// Words with which ranks signal each other when ranks are OS threads. kernels/cuda/simt/system_sync.cuh has the same
// names for GPUs. Each OS thread must register the memory of the other ranks before its kernels touch it.

#include <atomic>
#include <functional>
#include <thread>

#include "simt/device.cuh"

namespace quire::simt {

/// For tests: an action of the calling OS thread before each read of a word, such as letting other ranks run first.
inline std::function<void()>& BeforeAcquire() {
  thread_local std::function<void()> action;
  return action;
}

inline std::atomic_ref<uint32_t> SystemWord(const Global<uint32_t>& array, Index i) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(array.Bytes<uint32_t>(i)));
}

inline void StoreReleaseSystem(const Global<uint32_t>& array, Index i, uint32_t value) {
  Executor::Current().Release();
  SystemWord(array, i).store(value, std::memory_order_release);
}
inline uint32_t LoadAcquireSystem(const Global<uint32_t>& array, Index i) {
  if (BeforeAcquire()) BeforeAcquire()();
  return SystemWord(array, i).load(std::memory_order_acquire);
}
/// Yields, because there may be more ranks than processor cores.
inline void SpinPause() { std::this_thread::yield(); }

}  // namespace quire::simt
