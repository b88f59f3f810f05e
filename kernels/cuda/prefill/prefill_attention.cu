#include <bit>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/prefill/prefill_attention.h"
#include "kernels/cuda/prefill/prefill_attention_launch.cuh"

namespace quire::kernels {

namespace {

void Check(const PrefillAttentionParams& p) {
  const int64_t x = 16 / ByteSize(p.cache.type), row_x = 16 / ByteSize(p.dtype);
  QUIRE_KERNEL_CHECK(Aligned(p.cache.keys) && Aligned(p.cache.values) && Aligned(p.queries) && Aligned(p.out));
  QUIRE_KERNEL_CHECK(p.cache.key_block_stride % x == 0 && p.cache.value_block_stride % x == 0);
  QUIRE_KERNEL_CHECK(p.query_stride % row_x == 0 && p.out_stride % row_x == 0);
  QUIRE_KERNEL_CHECK(p.cache.block_size >= 8 && p.cache.block_size <= 64);
  QUIRE_KERNEL_CHECK(std::has_single_bit(static_cast<uint32_t>(p.cache.block_size)));
  QUIRE_KERNEL_CHECK(p.cache.head_size % 16 == 0 && p.cache.head_size <= 512);
  QUIRE_KERNEL_CHECK(p.scale > 0 && p.cache.k_scale > 0 && p.window >= 0 && p.soft_cap >= 0);
  QUIRE_KERNEL_CHECK(p.num_merges == 0 || (p.merges != nullptr && p.workspace != nullptr && Aligned(p.workspace)));
  CheckCacheType(p.dtype, p.cache);
}

}  // namespace

void PrefillAttention(const CudaStream& stream, const PrefillAttentionParams& params) {
  Check(params);
  if (params.num_tiles == 0 || params.cache.num_kv_heads == 0) return;
  const PrefillLaunch launch{params, std::countr_zero(static_cast<uint32_t>(params.cache.block_size)),
                             params.window > 0 ? params.window : INT32_MAX, params.scale * params.cache.k_scale};
  switch (params.dtype) {
    case NumberType::kF32:
      return PrefillF32(stream, launch);
    case NumberType::kF16:
      return PrefillF16(stream, launch);
    case NumberType::kBF16:
      return PrefillBF16(stream, launch);
    default:
      QUIRE_KERNEL_CHECK(!"CUDA ops compute in fp32, fp16 and bf16");
  }
}

bool HasPrefillInGroups(int32_t head_size) {
  return (head_size == 64 || head_size == 128) && simt::DeviceHasGroupMma();
}

}  // namespace quire::kernels
