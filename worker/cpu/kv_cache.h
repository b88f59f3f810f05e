#pragma once

#include "kernels/kv_cache.h"
#include "worker/engine/memory.h"
#include "worker/model/kv_layout.h"

namespace quire {

/// The type and layout of one rank's KV blocks. kernels::KvHeadBytes gives the size of a head.
struct KvShape {
  KvShape(const ModelSpec& spec, const RankShard& shard, NumberType number_type, int64_t tokens_of_block)
      : type(number_type),
        block_size(tokens_of_block),
        layout(spec, shard, [this](int64_t head_dim) { return head_bytes(head_dim); }) {}

  int64_t head_bytes(int64_t head_dim) const { return kernels::KvHeadBytes(type, head_dim, block_size); }

  NumberType type;
  int64_t block_size;  // tokens per block
  KvLayout layout;

  /// Bytes of one block, all layers.
  int64_t block_bytes() const { return layout.block_bytes; }
};

/// The memory of one rank's KV blocks. Block 0 is the null block.
class KvCache {
 public:
  KvCache(const KvShape& shape, int64_t num_blocks)
      : shape_(shape), memory_(static_cast<size_t>(num_blocks * shape.block_bytes())) {}

  kernels::KvCacheView Layer(int64_t layer) const {
    const KvLayout::Layer& l = shape_.layout.layer(layer);
    return {pool() + l.keys_at, pool() + l.values_at, shape_.block_bytes(), l.kv_heads,
            l.head_dim,         shape_.block_size,    shape_.type};
  }
  int64_t block_bytes() const { return shape_.block_bytes(); }
  std::byte* pool() const { return memory_.data(); }
  HostMemory& memory() { return memory_; }

 private:
  KvShape shape_;
  HostMemory memory_;
};

}  // namespace quire
