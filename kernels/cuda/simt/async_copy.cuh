#pragma once

// Asynchronous copies from global to shared memory (cp.async, sm_80).

#include <simt/device.cuh>

namespace quire::simt {

/// Starts to copy kBytes bytes (4, 8 or 16; both addresses must be multiples of kBytes) from from[j..] to to[i..]. If
/// !valid, writes zeros and reads nothing. The calling thread may use the bytes after it has waited for the copy; other
/// threads may use them after a barrier that follows this wait. A thread must wait for all of its copies before it
/// exits.
template <int kBytes, class T>
__device__ void CopyAsync(T* to, int64_t i, const T* from, int64_t j, bool valid = true) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to + i));
  const int count = valid ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(from + j), "r"(count));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from + j), "n"(kBytes), "r"(count));
  }
}

/// Makes one group of the thread's copies since the last call. The group may be empty.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most the thread's last kPending groups are unfinished.
template <int kPending>
__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace quire::simt
