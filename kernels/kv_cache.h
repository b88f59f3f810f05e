#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Tokens of a block on the CPU.
inline constexpr int64_t kMaxBlockSize = 256;

/// Bytes of the keys, or of the values, of one block and one head. The CPU keeps them as they are (kF32), in half
/// precision (kF16; numbers of 65,520 and more as NaN), or each vector of a token and head in 8-bit integers with one
/// scale (kInt8).
int64_t KvHeadBytes(NumberType type, int64_t head_dim, int64_t block_size);

/// The CPU layout of one layer of the paged KV cache. A block holds block_size tokens of all layers and lies
/// contiguous in memory, so that swapping or moving it is one copy; this view points at one layer's part.
///   keys   of (block b, kv head h): [head_dim, block_size]  (transposed: scores of a block are vector lanes)
///   values of (block b, kv head h): [block_size, head_dim]
/// With kInt8 the scales of either stand before it: [block_size] fp32.
struct KvCacheView {
  std::byte* keys;       // block 0, kv head 0
  std::byte* values;     // block 0, kv head 0
  int64_t block_stride;  // bytes from block b to block b + 1
  int64_t num_kv_heads;  // local
  int64_t head_dim;
  int64_t block_size;  // tokens
  NumberType type = NumberType::kF32;

  int64_t head_bytes() const { return KvHeadBytes(type, head_dim, block_size); }
};

/// Scatters new keys and values into their slots; without a twin, as CUDA does it in RopeKvWrite. A slot is block id *
/// block_size + offset. What is not finite is read as infinity or NaN; with kInt8 its whole vector is, as that has no
/// finite scale then.
struct KvWriteParams {
  const float* keys;    // [num_tokens, num_kv_heads, head_dim], rows row_stride floats apart
  const float* values;  // likewise
  int64_t row_stride;
  const int64_t* slots;  // [num_tokens], distinct
  int64_t num_tokens;
  KvCacheView cache;
};
void KvWrite(const CpuStream& stream, const KvWriteParams& params);

}  // namespace quire::kernels
