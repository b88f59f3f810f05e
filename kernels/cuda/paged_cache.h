#pragma once

#include <cstdint>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// One layer of the paged KV cache in CUDA's layout, with x = 16 bytes / size of an element:
///   keys   of (block b, KV head h): [head_size / x, block_size, x]   (16 bytes of one token, then of the next token)
///   values of (block b, KV head h): [head_size, block_size]
/// The stride between blocks may exceed this layer's part, so that one block can hold all layers contiguously.
struct PagedCache {
  void* keys;                  // keys of block 0, KV head 0; 16-byte aligned
  void* values;                // values of block 0, KV head 0; 16-byte aligned
  int64_t key_block_stride;    // elements between blocks, a multiple of x
  int64_t value_block_stride;  // elements between blocks, a multiple of x
  int32_t num_kv_heads;        // number of KV heads on this rank
  int32_t head_size;           // 64, 80, 96, 128, 256 or 512; DecodeAttention does not support 512
  int32_t block_size;          // tokens per block: 8, 16, 32 or 64
  /// The type of queries and results, or kFp8E4M3. With kFp8E4M3, a key is the stored number times k_scale, and a value
  /// is the stored number times v_scale.
  NumberType type;
  float k_scale, v_scale;  // 1 unless the type is kFp8E4M3
};

}  // namespace quire::kernels
