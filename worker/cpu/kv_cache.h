#pragma once

#include "comm/model/model_spec.h"
#include "kernels/kv_cache.h"
#include "worker/engine/memory.h"
#include "worker/model/shard.h"

namespace quire {

/// What one rank's KV blocks are made of: [layers][keys, values][local kv heads][kernels::KvHeadBytes].
struct KvShape {
  NumberType type;
  int64_t layers, kv_heads, head_dim, block_size;

  int64_t half_bytes() const { return kv_heads * kernels::KvHeadBytes(type, head_dim, block_size); }
  /// All layers.
  int64_t block_bytes() const { return layers * 2 * half_bytes(); }
};

/// One rank's KV blocks. Block 0 is the null block.
class KvCache {
 public:
  KvCache(const KvShape& shape, int64_t num_blocks)
      : shape_(shape), memory_(static_cast<size_t>(num_blocks * shape.block_bytes())) {}

  kernels::KvCacheView Layer(int64_t layer) const {
    std::byte* keys = pool() + layer * 2 * shape_.half_bytes();
    return {keys,
            keys + shape_.half_bytes(),
            shape_.block_bytes(),
            shape_.kv_heads,
            shape_.head_dim,
            shape_.block_size,
            shape_.type};
  }
  std::byte* pool() const { return memory_.data(); }

 private:
  KvShape shape_;
  HostMemory memory_;
};

}  // namespace quire
