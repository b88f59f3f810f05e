#pragma once

#include <cstdint>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// The CUDA layout of one layer of the paged KV cache, with x = 16 bytes / size of an element:
///   keys   of (block b, kv head h): [head_size / x, block_size, x]   (16 bytes of one token, then of the next token)
///   values of (block b, kv head h): [head_size, block_size]
/// Blocks may be further apart than one layer's part of them, so that a block of all layers can be contiguous.
struct PagedCache {
  void* keys;                  // block 0, kv head 0; 16-byte aligned
  void* values;                // likewise
  int64_t key_block_stride;    // elements from block b to block b + 1, a multiple of x
  int64_t value_block_stride;  // likewise
  int32_t num_kv_heads;        // local
  int32_t head_size;           // 64, 80, 96, 128, 256 or 512; DecodeAttention takes no 512
  int32_t block_size;          // tokens: 8, 16, 32 or 64
  /// The type of queries and results, or kFp8E4M3, of which a key is k_scale times the stored number and a value
  /// v_scale times.
  NumberType type;
  float k_scale, v_scale;  // 1 unless the type is kFp8E4M3
};

}  // namespace quire::kernels
