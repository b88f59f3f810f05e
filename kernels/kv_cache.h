#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// Tokens of a block on the CPU.
inline constexpr int64_t kMaxBlockSize = 256;

/// The CPU layout of one layer of the paged KV cache. A block holds block_size tokens of all layers and lies
/// contiguous in memory, so that swapping or moving it is one copy; this view points at one layer's part.
///   keys   of (block b, kv head h): [head_dim, block_size]  (transposed: scores of a block are vector lanes)
///   values of (block b, kv head h): [block_size, head_dim]
struct KvCacheView {
  float* keys;           // block 0, kv head 0
  float* values;         // block 0, kv head 0
  int64_t block_stride;  // floats from block b to block b + 1
  int64_t num_kv_heads;  // local
  int64_t head_dim;
  int64_t block_size;  // tokens

  int64_t head_floats() const { return head_dim * block_size; }
};

/// Scatters new keys and values into their slots; slot = block id * block_size + offset.
struct KvWriteParams {
  const float* keys;    // [num_tokens, num_kv_heads, head_dim], rows row_stride floats apart
  const float* values;  // likewise
  int64_t row_stride;
  const int64_t* slots;  // [num_tokens], distinct
  int64_t num_tokens;
  KvCacheView cache;
};
void KvWrite(const CpuStream& stream, const KvWriteParams& params);

/// Copies whole blocks (all layers) inside a pool or from one to another, one after another in the given order.
struct BlockCopyParams {
  const float* from;     // [num_blocks, block_floats]
  float* to;             // likewise; may be the same pool
  int64_t block_floats;  // all layers, keys and values
  const int32_t* pairs;  // [num_pairs, 2]: source, destination
  int64_t num_pairs;
};
void BlockCopy(const CpuStream& stream, const BlockCopyParams& params);

}  // namespace quire::kernels
