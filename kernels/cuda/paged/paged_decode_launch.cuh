#pragma once

#include "kernels/check.h"
#include "kernels/cuda/paged/paged_decode.cuh"

namespace quire::kernels {

// Chooses the kernel instantiation for the sizes. Each type T of queries and results has its own translation unit
// (paged_decode_<type>.cu).

template <class T, class C, int kHeadSize, int kBlockSize>
void LaunchDecode(const CudaStream& stream, DecodeLaunch launch) {
  using Kernel = PagedDecodeKernel<T, C, kHeadSize, kBlockSize>;
  const int32_t window = launch.op.window > 0 ? launch.op.window : launch.op.max_context_len;
  // A range that begins inside a block touches one more block than its length suggests.
  const int32_t tokens = std::min({launch.partition, window, launch.op.max_context_len});
  launch.max_scores = (tokens + kBlockSize - 1) / kBlockSize * kBlockSize + kBlockSize;
  QUIRE_KERNEL_CHECK(Kernel::SharedSize(launch.max_scores) <= PagedDecodeV1SharedBytes(tokens, kHeadSize, kBlockSize));
  simt::Launch<Kernel>({launch.op.num_heads, launch.op.num_seqs, launch.num_partitions}, Kernel::kThreads,
                       Kernel::SharedSize(launch.max_scores), stream, launch);
  if (launch.num_partitions == 1) return;
  using Combine = CombinePartitionsKernel<T, kHeadSize>;
  simt::Launch<Combine>({launch.op.num_heads, launch.op.num_seqs}, Combine::kThreads,
                        Combine::SharedSize(launch.num_partitions), stream, launch);
}

template <class T, class C, int kHeadSize>
void DecodeOfHeadSize(const CudaStream& stream, const DecodeLaunch& launch) {
  switch (launch.op.cache.block_size) {
    case 8:
      return LaunchDecode<T, C, kHeadSize, 8>(stream, launch);
    case 16:
      return LaunchDecode<T, C, kHeadSize, 16>(stream, launch);
    case 32:
      return LaunchDecode<T, C, kHeadSize, 32>(stream, launch);
    case 64:
      return LaunchDecode<T, C, kHeadSize, 64>(stream, launch);
    default:
      QUIRE_KERNEL_CHECK(!"block_size is 8, 16, 32 or 64");
  }
}

template <class T, class C>
void DecodeOfCache(const CudaStream& stream, const DecodeLaunch& launch) {
  switch (launch.op.cache.head_size) {
    case 64:
      return DecodeOfHeadSize<T, C, 64>(stream, launch);
    case 80:
      return DecodeOfHeadSize<T, C, 80>(stream, launch);
    case 96:
      return DecodeOfHeadSize<T, C, 96>(stream, launch);
    case 128:
      return DecodeOfHeadSize<T, C, 128>(stream, launch);
    case 256:
      return DecodeOfHeadSize<T, C, 256>(stream, launch);
    case 512:
      return DecodeOfHeadSize<T, C, 512>(stream, launch);
    default:
      QUIRE_KERNEL_CHECK(!"head_size is 64, 80, 96, 128, 256 or 512");
  }
}

template <class T>
void DecodeOfType(const CudaStream& stream, const DecodeLaunch& launch) {
  if (launch.op.cache.type != NumberType::kFp8E4M3) {
    DecodeOfCache<T, T>(stream, launch);
  } else {
    DecodeOfCache<T, simt::Fp8E4M3>(stream, launch);
  }
}

void DecodeF32(const CudaStream& stream, const DecodeLaunch& launch);
void DecodeF16(const CudaStream& stream, const DecodeLaunch& launch);
void DecodeBF16(const CudaStream& stream, const DecodeLaunch& launch);

}  // namespace quire::kernels
