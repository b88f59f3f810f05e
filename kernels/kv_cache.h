#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The most tokens of a KV block on the CPU.
inline constexpr int64_t kMaxBlockSize = 256;

/// Returns the bytes of the keys, or of the values, of one head in one block. The CPU stores keys and values as fp32
/// (kF32), as fp16 (kF16; magnitudes from 65,520 on become NaN), or as int8 (kInt8) with one scale per token and head.
int64_t KvHeadBytes(NumberType type, int64_t head_dim, int64_t block_size);

/// One layer of the paged KV cache as the CPU lays it out. A block holds block_size tokens of all layers contiguously,
/// so that swapping or moving a block is one copy. This view points at one layer's part:
///   keys   of (block b, KV head h): [head_dim, block_size]  (transposed: the scores of a block are vector lanes)
///   values of (block b, KV head h): [block_size, head_dim]
/// With kInt8, the scales of each part precede it: [block_size] fp32.
struct KvCacheView {
  std::byte* keys;       // keys of block 0, KV head 0
  std::byte* values;     // values of block 0, KV head 0
  int64_t block_stride;  // bytes between blocks
  int64_t num_kv_heads;  // number of KV heads on this rank
  int64_t head_dim;
  int64_t block_size;  // tokens per block
  NumberType type = NumberType::kF32;

  int64_t head_bytes() const { return KvHeadBytes(type, head_dim, block_size); }
};

/// Writes new keys and values into their slots. Slot = block id * block_size + offset in the block. Non-finite numbers
/// read back as infinity or NaN; with kInt8 the whole vector does, because its scale is not finite. CPU only: on CUDA,
/// RopeKvWrite does this.
struct KvWriteParams {
  const float* keys;    // [num_tokens, num_kv_heads, head_dim], rows row_stride floats apart
  const float* values;  // [num_tokens, num_kv_heads, head_dim], rows row_stride floats apart
  int64_t row_stride;
  const int64_t* slots;  // [num_tokens], distinct
  int64_t num_tokens;
  KvCacheView cache;
};
void KvWrite(const CpuStream& stream, const KvWriteParams& params);

}  // namespace quire::kernels
