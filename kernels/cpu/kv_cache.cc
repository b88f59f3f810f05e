#include "kernels/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/thread_pool.h"

namespace quire::kernels {

namespace {

/// One vector into the slot `offset` of a head's part; its numbers lie `stride` apart there.
void Write(const KvCacheView& cache, const float* vector, std::byte* head, int64_t offset, int64_t first,
           int64_t stride) {
  if (cache.type == KvType::kF32) {
    auto* to = reinterpret_cast<float*>(head) + first;
    for (int64_t d = 0; d < cache.head_dim; ++d) to[d * stride] = vector[d];
    return;
  }
  float largest = 0, spoilt = 0;  // spoilt: NaN when a number is not finite
  for (int64_t d = 0; d < cache.head_dim; ++d) {
    largest = std::max(largest, std::abs(vector[d]));
    spoilt += vector[d] - vector[d];
  }
  const float scale = largest / 127 + spoilt, inverse = scale > 0 ? 127 / largest : 0;
  reinterpret_cast<float*>(head)[offset] = scale;
  auto* to = reinterpret_cast<int8_t*>(head) + cache.block_size * static_cast<int64_t>(sizeof(float)) + first;
  for (int64_t d = 0; d < cache.head_dim; ++d)
    to[d * stride] = static_cast<int8_t>(inverse > 0 && inverse < INFINITY ? std::lrint(vector[d] * inverse) : 0);
}

}  // namespace

int64_t KvHeadBytes(KvType type, int64_t head_dim, int64_t block_size) {
  const int64_t numbers = head_dim * block_size;
  if (type == KvType::kF32) return numbers * static_cast<int64_t>(sizeof(float));
  return (block_size + (numbers + 3) / 4) * 4;  // the next part's scales are floats again
}

void KvWrite(const CpuStream& stream, const KvWriteParams& p) {
  const KvCacheView& cache = p.cache;
  stream.pool().ForRange(p.num_tokens, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t block = p.slots[t] / cache.block_size, offset = p.slots[t] % cache.block_size;
      for (int64_t h = 0; h < cache.num_kv_heads; ++h) {
        const int64_t head = block * cache.block_stride + h * cache.head_bytes(),
                      vector = t * p.row_stride + h * cache.head_dim;
        Write(cache, p.keys + vector, cache.keys + head, offset, offset, cache.block_size);
        Write(cache, p.values + vector, cache.values + head, offset, offset * cache.head_dim, 1);
      }
    }
  });
}

void BlockCopy(const CpuStream&, const BlockCopyParams& p) {
  for (int64_t i = 0; i < p.num_pairs; ++i) {
    std::memcpy(p.to + p.pairs[2 * i + 1] * p.block_bytes, p.from + p.pairs[2 * i] * p.block_bytes,
                static_cast<size_t>(p.block_bytes));
  }
}

}  // namespace quire::kernels
