#pragma once

#include "kernels/check.h"
#include "kernels/cuda/prefill/prefill_attention.cuh"
#include "kernels/cuda/prefill/prefill_attention_groups.cuh"
#include "kernels/cuda/prefill/prefill_attention_scalar.cuh"

namespace quire::kernels {

// Chooses the kernel instantiation for the sizes, except for the block size, which the kernel reads at run time. Each
// type T of queries and results has its own translation unit (prefill_attention_<type>.cu).

template <class Kernel>
void LaunchPrefill(const CudaStream& stream, const PrefillLaunch& launch) {
  simt::Launch<Kernel>({int64_t{launch.op.num_tiles} * launch.op.cache.num_kv_heads}, Kernel::kThreads,
                       Kernel::SharedSize(), stream, launch);
}

template <class T, class C, int kHeadSize>
void LaunchPrefillInTiles(const CudaStream& stream, const PrefillLaunch& launch) {
  constexpr bool kHasGroups = kHeadSize == 64 || kHeadSize == 128;
  using Kernel = PrefillAttentionKernel<T, C, kHeadSize>;
  if constexpr (kHasGroups) {
    if (launch.op.in_groups && HasPrefillInGroups(kHeadSize)) {
      LaunchPrefill<PrefillGroupsKernel<T, C, kHeadSize>>(stream, launch);
    } else {
      LaunchPrefill<Kernel>(stream, launch);
    }
  } else {
    LaunchPrefill<Kernel>(stream, launch);
  }
  if (launch.op.num_merges == 0) return;
  using Combine = CombinePrefillKernel<T, kHeadSize, Kernel::kRows>;
  simt::Launch<Combine>({int64_t{launch.op.num_merges} * launch.op.cache.num_kv_heads * Combine::kBlocks},
                        Combine::kThreads, 0, stream, launch);
}

template <class T, class C>
void PrefillOfCache(const CudaStream& stream, const PrefillLaunch& launch) {
  switch (launch.op.cache.head_size) {
    case 64:
      return LaunchPrefillInTiles<T, C, 64>(stream, launch);
    case 80:
      return LaunchPrefillInTiles<T, C, 80>(stream, launch);
    case 96:
      return LaunchPrefillInTiles<T, C, 96>(stream, launch);
    case 128:
      return LaunchPrefillInTiles<T, C, 128>(stream, launch);
    case 256:
      return LaunchPrefillInTiles<T, C, 256>(stream, launch);
    case 512:
      QUIRE_KERNEL_CHECK(launch.op.num_merges == 0);
      return LaunchPrefill<PrefillAttentionScalarKernel<T, C, 512>>(stream, launch);
    default:
      QUIRE_KERNEL_CHECK(!"head_size is 64, 80, 96, 128, 256 or 512");
  }
}

template <class T>
void PrefillOfType(const CudaStream& stream, const PrefillLaunch& launch) {
  if (launch.op.cache.type != NumberType::kFp8E4M3) {
    PrefillOfCache<T, T>(stream, launch);
  } else {
    PrefillOfCache<T, simt::Fp8E4M3>(stream, launch);
  }
}

void PrefillF32(const CudaStream& stream, const PrefillLaunch& launch);
void PrefillF16(const CudaStream& stream, const PrefillLaunch& launch);
void PrefillBF16(const CudaStream& stream, const PrefillLaunch& launch);

}  // namespace quire::kernels
