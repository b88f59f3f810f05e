#pragma once

// Words that ranks signal each other with, where ranks are OS threads; kernels/cuda/simt/system_sync.cuh has the same
// names for nvcc. Every thread registers the memory of the other ranks before its kernels touch it.

#include <atomic>
#include <functional>
#include <thread>

#include "simt/device.cuh"

namespace quire::simt {

/// For tests: what the calling OS thread does before each look at a word, such as letting other ranks go first.
inline std::function<void()>& BeforeAcquire() {
  thread_local std::function<void()> action;
  return action;
}

inline std::atomic_ref<uint32_t> SystemWord(const Global<uint32_t>& array, Index i) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(array.Bytes<uint32_t>(i)));
}

inline void StoreReleaseSystem(const Global<uint32_t>& array, Index i, uint32_t value) {
  SystemWord(array, i).store(value, std::memory_order_release);
}
inline uint32_t LoadAcquireSystem(const Global<uint32_t>& array, Index i) {
  if (BeforeAcquire()) BeforeAcquire()();
  return SystemWord(array, i).load(std::memory_order_acquire);
}
/// There may be more ranks than cores.
inline void SpinPause() { std::this_thread::yield(); }

}  // namespace quire::simt
