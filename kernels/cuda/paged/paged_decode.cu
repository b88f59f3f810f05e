#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/paged/paged_decode.h"
#include "kernels/cuda/paged/paged_decode_launch.cuh"

namespace quire::kernels {

namespace {

void Decode(const CudaStream& stream, const DecodeLaunch& launch) {
  const PagedDecodeParams& p = launch.op;
  const int64_t x = 16 / ByteSize(p.cache.type);
  QUIRE_KERNEL_CHECK(Aligned(p.cache.keys) && Aligned(p.cache.values));
  QUIRE_KERNEL_CHECK(p.cache.key_block_stride % x == 0 && p.cache.value_block_stride % x == 0);
  QUIRE_KERNEL_CHECK(p.max_context_len >= 0 && p.window >= 0 && p.soft_cap >= 0);
  CheckCacheType(p.dtype, p.cache);
  if (p.num_seqs == 0 || p.num_heads == 0) return;
  switch (p.dtype) {
    case NumberType::kF32:
      return DecodeF32(stream, launch);
    case NumberType::kF16:
      return DecodeF16(stream, launch);
    case NumberType::kBF16:
      return DecodeBF16(stream, launch);
    default:
      QUIRE_KERNEL_CHECK(!"CUDA ops compute in fp32, fp16 and bf16");
  }
}

}  // namespace

void PagedDecodeV1(const CudaStream& stream, const PagedDecodeParams& params) {
  Decode(stream, {params, INT32_MAX, 1, 0, nullptr, nullptr, nullptr});
}

void PagedDecodeV2(const CudaStream& stream, const PagedDecodeParams& params) {
  const int32_t partitions = (params.max_context_len + kDecodePartition - 1) / kDecodePartition;
  if (partitions <= 1) return PagedDecodeV1(stream, params);
  QUIRE_KERNEL_CHECK(params.workspace != nullptr);
  const int64_t parts = int64_t{params.num_seqs} * params.num_heads * partitions;
  float* max_score = params.workspace + parts * params.cache.head_size;
  Decode(stream, {params, kDecodePartition, partitions, 0, params.workspace, max_score, max_score + parts});
}

void PagedDecode(const CudaStream& stream, const PagedDecodeParams& params) {
  if (PrefersV1(params.max_context_len, params.num_seqs, params.num_heads)) {
    PagedDecodeV1(stream, params);
  } else {
    PagedDecodeV2(stream, params);
  }
}

}  // namespace quire::kernels
