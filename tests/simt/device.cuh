#pragma once

// Kernels include this header as <simt/device.cuh> when g++ compiles them for the emulator. The functions have the
// names of kernels/cuda/simt/device.cuh; fibers execute them with checks. A trailing parameter Where is the caller's
// line.

#include <algorithm>
#include <bit>
#include <typeinfo>

#include "kernels/stream.h"
#include "simt/executor.h"
#include "simt/global_pointer.h"
#include "simt/kernel_name.h"
#include "simt/numeric.h"
#include "simt/shared_array.h"
#include "simt/submit.h"

#define __device__
#define __host__

namespace quire::simt {

inline int64_t BlockX() { return Executor::Current().block_index.x; }
inline int64_t BlockY() { return Executor::Current().block_index.y; }
inline int64_t BlockZ() { return Executor::Current().block_index.z; }
inline int64_t GridX() { return Executor::Current().grid.x; }
inline int ThreadX() { return static_cast<int>(Executor::Current().thread_index.x); }

inline void SyncThreads(Where where = Where::current()) { Executor::Current().Barrier(where); }

constexpr uint32_t kFullWarp = 0xffffffff;
inline void SyncWarp(uint32_t mask = kFullWarp, Where where = Where::current()) {
  Executor::Current().Collect(Collective::kSyncWarp, mask, 0, Executor::Current().lane(), where);
}

template <class T>
T ShuffleFrom(T value, int source, uint32_t mask, Where where) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const uint64_t got =
      Executor::Current().Collect(Collective::kShuffle, mask, std::bit_cast<Bits>(value), source, where);
  return std::bit_cast<T>(static_cast<Bits>(got));
}
template <class T>
T ShuffleXor(T value, int lane_mask, uint32_t mask = kFullWarp, Where where = Where::current()) {
  return ShuffleFrom(value, (Executor::Current().lane() ^ lane_mask) & 31, mask, where);
}
/// Returns the value of the lane `delta` lanes above. Lanes without such a lane get their own value.
template <class T>
T ShuffleDown(T value, int delta, uint32_t mask = kFullWarp, Where where = Where::current()) {
  const int lane = Executor::Current().lane();
  return ShuffleFrom(value, lane + delta > 31 ? lane : lane + delta, mask, where);
}
template <class T>
T Broadcast(T value, int source, uint32_t mask = kFullWarp, Where where = Where::current()) {
  return ShuffleFrom(value, source, mask, where);
}

inline uint32_t Ballot(bool predicate, uint32_t mask = kFullWarp, Where where = Where::current()) {
  Executor& executor = Executor::Current();
  return static_cast<uint32_t>(executor.Collect(Collective::kBallot, mask, predicate, executor.lane(), where));
}
inline int PopCount(uint32_t bits) { return std::popcount(bits); }
inline bool Any(bool predicate, uint32_t mask = kFullWarp, Where where = Where::current()) {
  return Ballot(predicate, mask, where) != 0;
}
inline bool All(bool predicate, uint32_t mask = kFullWarp, Where where = Where::current()) {
  return Ballot(predicate, mask, where) == mask;
}

template <class T, class Change>
T Atomic(const SharedArray<T>& array, Index i, Change change) {
  std::byte* p = array.template Bytes<T>(i, Access::kAtomic);
  T old;
  std::memcpy(&old, p, sizeof(T));
  const T changed = change(old);
  std::memcpy(p, &changed, sizeof(T));
  return old;
}
template <class T, class Change>
T Atomic(const Global<T>& array, Index i, Change change) {
  return array.Replace(i, change);
}
/// Sets array[i] to array[i] + value, or to max(array[i], value); returns the old value.
template <template <class> class Memory, class T>
T AtomicAdd(const Memory<T>& array, Index i, T value) {
  return Atomic(array, i, [value](T old) { return old + value; });
}
template <template <class> class Memory, class T>
T AtomicMax(const Memory<T>& array, Index i, T value) {
  return Atomic(array, i, [value](T old) { return Max(old, value); });
}

/// Loads elements [i, i + N) in accesses of up to 16 bytes; i must be aligned to the vector.
template <int N, template <class> class Memory, class T>
Vec<std::remove_const_t<T>, N> LoadVec(const Memory<T>& array, Index i) {
  return array.template Read<Vec<std::remove_const_t<T>, N>>(i);
}
template <int N, template <class> class Memory, class T>
void StoreVec(const Memory<T>& array, Index i, const Vec<T, N>& value) {
  array.Write(i, value);
}

/// Returns the same bytes as elements of another type.
template <class U, class T>
SharedArray<U> As(const SharedArray<T>& array) {
  return array.template As<U>();
}

/// Hands out the block's shared memory piece by piece; every thread takes the same pieces in the same order.
class SharedArena {
 public:
  template <class T>
  SharedArray<T> Take(int64_t count, Where where = Where::current()) {
    const int64_t begin = next_;
    next_ += (count * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
    if (next_ > static_cast<int64_t>(Executor::Current().shared_bytes())) {
      Executor::Current().Fail("takes more shared memory than the launch gave", where);
    }
    return {begin, count};
  }

 private:
  int64_t next_ = 0;
};
constexpr int64_t SharedBytes(int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Notes that the thread waited for the kernels before this one. Launches never overlap in the emulator, but a thread
/// of a kernel that may overlap must wait before it touches memory that other kernels may write.
inline void WaitForPrerequisites() { Executor::Current().WaitForPrerequisites(); }
inline void TriggerDependents() {}
template <class Kernel>
constexpr bool OverlapsPrevious() {
  if constexpr (requires { Kernel::kOverlapsPrevious; }) return Kernel::kOverlapsPrevious;
  return false;
}

template <class Kernel>
constexpr Executor::BlockOrder OrderOfBlocks() {
  bool together = false;
  if constexpr (requires { Kernel::kNeedsCoResidency; }) together = Kernel::kNeedsCoResidency;
  return together ? Executor::BlockOrder::kAscending : Executor::BlockOrder::kRandom;
}

/// Notes that the kernel is loaded. A kernel is loaded by its first launch. Loading may wait for the device, which
/// recording a graph forbids, so a first launch while a graph is recorded throws SimtError.
inline void Load(const std::type_info& kernel) {
  if (Recording() == nullptr) {
    LoadedKernels().insert(kernel);
  } else if (LoadedKernels().count(kernel) == 0) {
    throw SimtError(KernelName(kernel) + ": launched for the first time while a graph is recorded");
  }
}

/// Runs Kernel::Run(params) in every thread, and returns when the last thread ends. While a graph is recorded, the
/// launch is stored instead. Blocks that need co-residency run in ascending order, so that block i of one thread's
/// launch meets block i of another's.
template <class Kernel>
void Launch(Dim3 grid, int threads, int64_t shared_bytes, const kernels::CudaStream&,
            const typename Kernel::Params& params) {
  Load(typeid(Kernel));
  Submit([grid, threads, shared_bytes, copy = params]() mutable {
    Executor::Current().Run(
        KernelName(typeid(Kernel)), grid, {threads}, static_cast<size_t>(shared_bytes), OrderOfBlocks<Kernel>(),
        OverlapsPrevious<Kernel>(), [](void* p) { Kernel::Run(*static_cast<const typename Kernel::Params*>(p)); },
        &copy);
  });
}

}  // namespace quire::simt
