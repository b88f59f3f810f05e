#pragma once

// Copies from global to shared memory that a thread starts and later waits for (cp.async, sm_80).

#include <simt/device.cuh>

namespace quire::simt {

/// Starts to copy kBytes (4, 8 or 16, which both addresses are aligned to) from from[j..] to to[i..], or to write as
/// many zeros and read nothing when !valid. The bytes may be touched again once the issuing thread has waited, by other
/// threads after a barrier behind that wait. A thread must not end before it has waited for all of its copies.
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

/// The thread's copies since the last call are one group; there may be none.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits for all of the thread's groups but the last kPending.
template <int kPending>
__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace quire::simt
