#pragma once

// The device primitives of kernels, for nvcc. tests/simt/device.cuh provides the same names for the emulator. Kernels
// include <simt/device.cuh>, and the include path selects one of the two.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <nv/target>
#include <simt/numeric.cuh>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cuda/shared_memory_limit.h"
#include "kernels/stream.h"

namespace quire::simt {

struct Dim3 {
  int64_t x = 1, y = 1, z = 1;
};

__device__ inline int64_t BlockX() { return blockIdx.x; }
__device__ inline int64_t BlockY() { return blockIdx.y; }
__device__ inline int64_t BlockZ() { return blockIdx.z; }
__device__ inline int64_t GridX() { return gridDim.x; }
__device__ inline int ThreadX() { return static_cast<int>(threadIdx.x); }

__device__ inline void SyncThreads() { __syncthreads(); }

constexpr uint32_t kFullWarp = 0xffffffff;
__device__ inline void SyncWarp(uint32_t mask = kFullWarp) { __syncwarp(mask); }
template <class T>
__device__ T ShuffleXor(T value, int lane_mask, uint32_t mask = kFullWarp) {
  return __shfl_xor_sync(mask, value, lane_mask);
}
/// Returns the value of the lane `delta` lanes above. Lanes without such a lane get their own value.
template <class T>
__device__ T ShuffleDown(T value, int delta, uint32_t mask = kFullWarp) {
  return __shfl_down_sync(mask, value, static_cast<unsigned>(delta));
}
template <class T>
__device__ T Broadcast(T value, int source, uint32_t mask = kFullWarp) {
  return __shfl_sync(mask, value, source);
}
__device__ inline uint32_t Ballot(bool predicate, uint32_t mask = kFullWarp) { return __ballot_sync(mask, predicate); }
__device__ inline int PopCount(uint32_t bits) { return __popc(bits); }
__device__ inline bool Any(bool predicate, uint32_t mask = kFullWarp) { return __any_sync(mask, predicate) != 0; }
__device__ inline bool All(bool predicate, uint32_t mask = kFullWarp) { return __all_sync(mask, predicate) != 0; }

/// With nvcc, memory accessors are plain pointers. (The emulator's versions check accesses.)
template <class T>
using Global = T*;
template <class T>
using SharedArray = T*;
/// Returns a view of the same bytes as elements of another type. The sizes of both types must divide the number
/// of bytes.
template <class U, class T>
__device__ SharedArray<U> As(T* array) {
  return reinterpret_cast<U*>(array);
}

/// AtomicAdd sets array[i] += value; AtomicMax sets array[i] = max(array[i], value). Both return the previous value.
template <class T>
__device__ T AtomicAdd(T* array, int64_t i, T value) {
  return atomicAdd(array + i, value);
}
__device__ inline int AtomicMax(int* array, int64_t i, int value) { return atomicMax(array + i, value); }
/// Sets array[i] = max(array[i], value) and returns the previous value. The bits of nonnegative floats are ordered like
/// integers, and the bits of negative floats have the reverse order.
__device__ inline float AtomicMax(float* array, int64_t i, float value) {
  const int bits = __float_as_int(value);
  if (bits >= 0) return __int_as_float(atomicMax(reinterpret_cast<int*>(array + i), bits));
  return __uint_as_float(atomicMin(reinterpret_cast<unsigned*>(array + i), __float_as_uint(value)));
}

/// N elements, loaded or stored in accesses of at most 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};
template <int kBytes>
using Word = std::conditional_t<
    kBytes % 16 == 0, uint4,
    std::conditional_t<kBytes == 8, uint2,
                       std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 2, uint16_t, uint8_t>>>>;
/// Loads elements [i, i + N) in accesses of up to 16 bytes. array + i must be aligned like a Vec<T, N>.
template <int N, class T>
__device__ Vec<std::remove_const_t<T>, N> LoadVec(T* array, int64_t i) {
  using W = Word<sizeof(T) * N>;
  constexpr int kWords = sizeof(T) * N / sizeof(W);
  W words[kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) words[w] = reinterpret_cast<const W*>(array + i)[w];
  Vec<std::remove_const_t<T>, N> value;
  memcpy(&value, words, sizeof(value));
  return value;
}
template <int N, class T>
__device__ void StoreVec(T* array, int64_t i, const Vec<T, N>& value) {
  using W = Word<sizeof(T) * N>;
  constexpr int kWords = sizeof(T) * N / sizeof(W);
  W words[kWords];
  memcpy(words, &value, sizeof(value));
#pragma unroll
  for (int w = 0; w < kWords; ++w) reinterpret_cast<W*>(array + i)[w] = words[w];
}

/// Hands out the block's shared memory piece by piece. Every thread must take the same pieces in the same order.
class SharedArena {
 public:
  __device__ SharedArena() {
    extern __shared__ __align__(16) unsigned char quire_shared[];
    next_ = quire_shared;
  }
  template <class T>
  __device__ SharedArray<T> Take(int64_t count) {
    T* begin = reinterpret_cast<T*>(next_);
    next_ += (count * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
    return begin;
  }

 private:
  unsigned char* next_;
};
constexpr int64_t SharedBytes(int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Throws std::runtime_error if a call failed. A failed launch is no mistake of the caller: the device is lost, or too
/// old for this build.
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) Enter(const __grid_constant__ typename Kernel::Params params) {
  Kernel::Run(params);
}

/// Programmatic dependent launch: waits until earlier kernels have ended (from sm_90 on; on older devices kernels never
/// overlap, and the functions do nothing). A kernel with `static constexpr bool kOverlapsPrevious = true` may start
/// while its predecessor in the stream still runs. Such a kernel must call WaitForPrerequisites before it touches
/// memory that an earlier kernel writes or reads. TriggerDependents allows the successor to start; this kernel's writes
/// are complete only at the successor's WaitForPrerequisites.
__device__ inline void WaitForPrerequisites() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}
__device__ inline void TriggerDependents() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;" ::: "memory");))
}
template <class Kernel>
constexpr bool OverlapsPrevious() {
  if constexpr (requires { Kernel::kOverlapsPrevious; }) return Kernel::kOverlapsPrevious;
  return false;
}
inline bool DeviceCanOverlap() {
  int device = 0, major = 0;
  CheckCuda(cudaGetDevice(&device), "current device");
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "compute capability");
  return major >= 9;
}

/// Queues Kernel::Run(params) for every thread of the grid. A kernel whose blocks wait for each other has `static
/// constexpr bool kNeedsCoResidency = true`; its caller must keep the grid small enough for all blocks to be resident.
template <class Kernel>
void Launch(Dim3 grid, int threads, int64_t shared_bytes, const kernels::CudaStream& stream,
            const typename Kernel::Params& params) {
  const auto bytes = static_cast<int>(shared_bytes);
  if (bytes > 48 * 1024) {
    static kernels::SharedMemoryLimit limit;  // one limit per kernel
    int device = 0;
    CheckCuda(cudaGetDevice(&device), "current device");
    limit.Allow(device, bytes, [&] {
      CheckCuda(cudaFuncSetAttribute(Enter<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                "shared memory of a kernel");
    });
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream.handle);
  config.attrs = &overlap;
  config.numAttrs = OverlapsPrevious<Kernel>() && DeviceCanOverlap() ? 1 : 0;
  CheckCuda(cudaLaunchKernelEx(&config, Enter<Kernel>, params), "kernel launch");
}

}  // namespace quire::simt
