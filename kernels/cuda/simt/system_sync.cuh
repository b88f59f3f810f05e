#pragma once

#include <simt/device.cuh>

// Words that GPUs and the host signal each other with; see tests/simt/system_sync.cuh for the emulator's.
namespace quire::simt {

/// array[i] = value, after everything that this thread wrote, or saw written before a barrier, anywhere in the system.
__device__ inline void StoreReleaseSystem(uint32_t* array, int64_t i, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(array + i), "r"(value) : "memory");
}

/// array[i]; whoever reads a released value sees what was written before it, on this GPU, another one or the host.
__device__ inline uint32_t LoadAcquireSystem(const uint32_t* array, int64_t i) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(array + i) : "memory");
  return value;
}

/// Between two looks at a word that another rank will write. The load's latency is pause enough.
__device__ inline void SpinPause() {}

}  // namespace quire::simt
