#include "kernels/cuda/decode/decode_attention.h"
#include "kernels/cuda/decode/decode_attention_launch.cuh"
#include "kernels/cuda/launch.cuh"

namespace quire::kernels {

void DecodeAttention(const CudaStream& stream, const DecodeAttentionParams& p) {
  const int64_t x = 16 / ByteSize(p.cache.type);
  const int32_t block = p.cache.block_size;
  QUIRE_KERNEL_CHECK(Aligned(p.cache.keys) && Aligned(p.cache.values));
  QUIRE_KERNEL_CHECK(p.cache.key_block_stride % x == 0 && p.cache.value_block_stride % x == 0);
  QUIRE_KERNEL_CHECK(block == 8 || block == 16 || block == 32 || block == 64);
  QUIRE_KERNEL_CHECK(Aligned(p.queries) && p.query_stride % 8 == 0 && Aligned(p.out) && p.out_stride % 8 == 0);
  QUIRE_KERNEL_CHECK(Aligned(p.work) && Aligned(p.workspace) && (p.workspace != nullptr || !p.combine));
  QUIRE_KERNEL_CHECK(p.stages >= 2 && p.stages <= 4 && p.work_size.num_ctas >= 1 && p.soft_cap >= 0);
  CheckCacheType(p.dtype, p.cache);
  const int64_t rows = p.work_size.MaxSlots() * kDecodeRows;
  DecodeAttentionLaunch launch{p, p.work_size.FirstItemsAt(), p.work_size.MergesAt(), p.work_size.ItemsAt()};
  if (p.workspace != nullptr) {
    launch.partial = p.workspace;
    launch.max_score = launch.partial + rows * p.cache.head_size;
    launch.exp_sum = launch.max_score + rows;
  }
  switch (p.dtype) {
    case NumberType::kF16:
      return DecodeAttentionF16(stream, launch);
    case NumberType::kBF16:
      return DecodeAttentionBF16(stream, launch);
    default:
      QUIRE_KERNEL_CHECK(!"tensor cores take 16-bit types; fp32 goes through PrefillAttention, or v1 and v2");
  }
}

}  // namespace quire::kernels
