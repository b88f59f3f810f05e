#pragma once

// Products of a warpgroup: four neighbouring warps (wgmma, sm_90a only; elsewhere the code traps). The products are
// queued and read shared memory until they have been waited for. See PTX ISA, "Asynchronous warpgroup level matrix
// instructions". Warp w of the group has rows 16 * w .. 16 * w + 15 of A [64, 16] and of D [64, n]. Within the warp, A
// has the layout of tensor_core.cuh, and D is n / 8 such results side by side.

#include <simt/device.cuh>

namespace quire::simt {

/// B, transposed: [n, 16] 16-bit numbers in shared memory, as units of 8 neighbouring columns of a row (16 bytes). The
/// units of 8 columns lie one after the other with ascending rows; the next 8 columns are `group_stride` elements
/// further. The first element must be 16-byte aligned, and n must be a multiple of 8.
template <class T>
struct GroupMatrix {
  SharedArray<T> array;
  int64_t begin;         // first element
  int32_t group_stride;  // elements, a multiple of 8
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// Returns PTX's "matrix descriptor" of B: addresses and strides in units of 16 bytes, K-major without swizzle.
template <class T>
__device__ uint64_t DescriptorOf(const GroupMatrix<T>& b) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(b.array + b.begin));
  constexpr uint64_t kEightRows = 8 * 16 / 16;
  return (at & 0x3ffff) >> 4 | static_cast<uint64_t>(b.group_stride * 2 / 16) << 16 | kEightRows << 32;
}

// Assembler operands for registers of D: four per 8 columns.
#define QUIRE_D4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define QUIRE_D16(i) QUIRE_D4(i), QUIRE_D4(i + 1), QUIRE_D4(i + 2), QUIRE_D4(i + 3)
#define QUIRE_NAMES32                                                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define QUIRE_NAMES64                                                                                           \
  QUIRE_NAMES32                                                                                                 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define QUIRE_GROUP_MMA_64(types)                                            \
  asm volatile(                                                              \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                           \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " {" QUIRE_NAMES32 \
      "}, {%32, %33, %34, %35}, %36, p, 1, "                                 \
      "1, 0;\n}"                                                             \
      : QUIRE_D16(0), QUIRE_D16(4)                                           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor), "r"(adds_to))
#define QUIRE_GROUP_MMA_128(types)                                            \
  asm volatile(                                                               \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                            \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." types " {" QUIRE_NAMES64 \
      "}, {%64, %65, %66, %67}, %68, p, 1, "                                  \
      "1, 0;\n}"                                                              \
      : QUIRE_D16(0), QUIRE_D16(4), QUIRE_D16(8), QUIRE_D16(12)               \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor), "r"(adds_to))

/// Queues d = a * b, or d += a * b if `adds`. All 128 threads of the group must call this. Between BeginGroupMmas and
/// WaitForGroupMmas, d and a must not be touched and the shared memory must not be written.
template <class T, int kColumns>
__device__ void GroupMma(float (&d)[kColumns / 8][4], const uint32_t (&a)[4], const GroupMatrix<T>& b, bool adds) {
  static_assert(kColumns == 64 || kColumns == 128);
  const uint64_t descriptor = DescriptorOf(b);
  const int adds_to = adds;
  if constexpr (kColumns == 64) {
    if constexpr (std::is_same_v<T, Half>) {
      QUIRE_GROUP_MMA_64("f16.f16");
    } else {
      static_assert(std::is_same_v<T, BFloat16>);
      QUIRE_GROUP_MMA_64("bf16.bf16");
    }
  } else {
    if constexpr (std::is_same_v<T, Half>) {
      QUIRE_GROUP_MMA_128("f16.f16");
    } else {
      static_assert(std::is_same_v<T, BFloat16>);
      QUIRE_GROUP_MMA_128("bf16.bf16");
    }
  }
}

#undef QUIRE_GROUP_MMA_128
#undef QUIRE_GROUP_MMA_64
#undef QUIRE_NAMES64
#undef QUIRE_NAMES32

/// Prevents the compiler from moving accesses to these registers across this point.
template <int kUnits>
__device__ void HoldRegisters(float (&d)[kUnits][4]) {
#pragma unroll
  for (int i = 0; i < kUnits; ++i) asm volatile("" : QUIRE_D4(i)::"memory");
}
template <int kSteps>
__device__ void HoldRegisters(uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (int i = 0; i < kSteps; ++i)
    asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
}

/// Makes changes that other code has made to these registers visible to the next GroupMmas. Call this function before
/// GroupMma if other code may have changed the registers since the last GroupMma.
template <int kUnits, int kSteps>
__device__ void BeginGroupMmas(float (&d)[kUnits][4], uint32_t (&a)[kSteps][4]) {
  HoldRegisters(d);
  HoldRegisters(a);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Waits for all queued products.
template <int kUnits, int kSteps>
__device__ void WaitForGroupMmas(float (&d)[kUnits][4], uint32_t (&a)[kSteps][4]) {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  HoldRegisters(d);
  HoldRegisters(a);
}
/// Makes this thread's writes to shared memory visible to GroupMmas after the next barrier.
__device__ inline void ShareWithGroupMmas() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#undef QUIRE_D16
#undef QUIRE_D4

#else

template <class T, int kColumns>
__device__ void GroupMma(float (&)[kColumns / 8][4], const uint32_t (&)[4], const GroupMatrix<T>&, bool) {
  __trap();
}
template <int kUnits, int kSteps>
__device__ void BeginGroupMmas(float (&)[kUnits][4], uint32_t (&)[kSteps][4]) {
  __trap();
}
template <int kUnits, int kSteps>
__device__ void WaitForGroupMmas(float (&)[kUnits][4], uint32_t (&)[kSteps][4]) {
  __trap();
}
__device__ inline void ShareWithGroupMmas() { __trap(); }

#endif

/// True if the current device supports warpgroup products and this build has code for them.
inline bool DeviceHasGroupMma() {
#ifdef QUIRE_HAS_SM90A
  int device = 0, major = 0, minor = 0;
  CheckCuda(cudaGetDevice(&device), "current device");
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "compute capability");
  CheckCuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "compute capability");
  return major == 9 && minor == 0;
#else
  return false;
#endif
}

}  // namespace quire::simt
