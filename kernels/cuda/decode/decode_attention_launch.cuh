#pragma once

#include "kernels/check.h"
#include "kernels/cuda/decode/decode_attention.cuh"
#include "kernels/cuda/decode/decode_attention_combine.cuh"

namespace quire::kernels {

// Chooses the kernel instantiation for the sizes. Each type T of queries and results has its own translation unit
// (decode_attention_<type>.cu).

template <class T, class C, int kHeadSize>
void LaunchDecodeAttention(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  using Kernel = DecodeAttentionKernel<T, C, kHeadSize>;
  static_assert(Kernel::kStageBytes ==
                DecodeStageBytes(NumberType::kF16, Kernel::kFp8 ? NumberType::kFp8E4M3 : NumberType::kF16, kHeadSize));
  static_assert(Kernel::SharedSize(4) - 4 * Kernel::kStageBytes <= DecodeExtraBytes(NumberType::kF16, kHeadSize));
  simt::Launch<Kernel>({launch.op.work_size.num_ctas}, Kernel::kThreads, Kernel::SharedSize(launch.op.stages), stream,
                       launch);
  if (!launch.op.combine) return;
  using Combine = CombineDecodeKernel<T, kHeadSize>;
  simt::Launch<Combine>({launch.op.work_size.num_ctas}, Combine::kThreads,
                        Combine::SharedSize(launch.op.work_size.num_ctas), stream, launch);
}

template <class T, class C>
void DecodeAttentionOfCache(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  switch (launch.op.cache.head_size) {
    case 64:
      return LaunchDecodeAttention<T, C, 64>(stream, launch);
    case 80:
      return LaunchDecodeAttention<T, C, 80>(stream, launch);
    case 96:
      return LaunchDecodeAttention<T, C, 96>(stream, launch);
    case 128:
      return LaunchDecodeAttention<T, C, 128>(stream, launch);
    case 256:
      return LaunchDecodeAttention<T, C, 256>(stream, launch);
    default:
      QUIRE_KERNEL_CHECK(!"head_size is 64, 80, 96, 128 or 256");
  }
}

template <class T>
void DecodeAttentionOfType(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  if (launch.op.cache.type != NumberType::kFp8E4M3) {
    DecodeAttentionOfCache<T, T>(stream, launch);
  } else {
    DecodeAttentionOfCache<T, simt::Fp8E4M3>(stream, launch);
  }
}

void DecodeAttentionF16(const CudaStream& stream, const DecodeAttentionLaunch& launch);
void DecodeAttentionBF16(const CudaStream& stream, const DecodeAttentionLaunch& launch);

}  // namespace quire::kernels
