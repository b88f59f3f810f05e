#include "kernels/kv_cache.h"

#include <cstring>

#include "kernels/block_copy.h"
#include "kernels/check.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::kernels {

int64_t KvHeadBytes(NumberType type, int64_t head_dim, int64_t block_size) {
  const int64_t numbers = head_dim * block_size;
  switch (type) {
    case NumberType::kF32:
      return numbers * 4;
    case NumberType::kF16:
      return (numbers + 1) / 2 * 4;
    case NumberType::kInt8:
      return (block_size + (numbers + 3) / 4) * 4;  // a multiple of 4 bytes: the next part begins with fp32 scales
    default:
      QUIRE_KERNEL_CHECK(!"the CPU keeps keys and values as fp32, fp16 or int8");
  }
}

void KvWrite(const CpuStream& stream, const KvWriteParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().kv_write(p, begin, end); });
}

void BlockCopy(const CpuStream&, const BlockCopyParams& p) {
  for (int64_t i = 0; i < p.num_pairs; ++i) {
    std::memcpy(p.to + p.pairs[2 * i + 1] * p.block_bytes, p.from + p.pairs[2 * i] * p.block_bytes,
                static_cast<size_t>(p.block_bytes));
  }
}

}  // namespace quire::kernels
