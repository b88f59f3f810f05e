#pragma once

#include <simt/device.cuh>

// Signals between GPUs and the host. tests/simt/system_sync.cuh has the emulator's versions.
namespace quire::simt {

/// Sets array[i] = value. A thread that reads the value with LoadAcquireSystem also sees all earlier writes of this
/// thread. It also sees what the other threads of this thread's block wrote before their last common barrier.
__device__ inline void StoreReleaseSystem(uint32_t* array, int64_t i, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(array + i), "r"(value) : "memory");
}

/// Returns array[i]. If StoreReleaseSystem wrote the value, or a release on the host, this thread also sees the writes
/// before that release.
__device__ inline uint32_t LoadAcquireSystem(const uint32_t* array, int64_t i) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(array + i) : "memory");
  return value;
}

/// Pauses between two reads of a word that another rank will write. On a GPU no pause is needed, because the read
/// itself takes long enough.
__device__ inline void SpinPause() {}

}  // namespace quire::simt
