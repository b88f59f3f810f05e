#pragma once

#include "comm/topology/compute_settings.h"
#include "kernels/kv_cache.h"
#include "worker/model/kv_layout.h"

namespace quire {

/// The type and layout of one rank's KV blocks. kernels::KvHeadBytes returns the bytes of a head.
struct KvShape {
  KvShape(const ModelSpec& spec, const RankShard& shard, NumberType number_type, int64_t tokens_of_block)
      : type(number_type),
        block_size(tokens_of_block),
        layout(spec, shard, [this](int64_t head_dim) { return head_bytes(head_dim); }) {}

  int64_t head_bytes(int64_t head_dim) const { return kernels::KvHeadBytes(type, head_dim, block_size); }

  NumberType type;
  int64_t block_size;  // tokens per block
  KvLayout layout;

  /// Returns the bytes of one block, all layers included.
  int64_t block_bytes() const { return layout.block_bytes; }
};

/// One model's keys and values in the memory of KV blocks. Block 0 is the null block.
class KvCache {
 public:
  /// `first`: the model's part of block 0; `stride`: bytes between blocks.
  KvCache(const KvShape& shape, std::byte* first, int64_t stride) : shape_(shape), first_(first), stride_(stride) {}

  kernels::KvCacheView Layer(int64_t layer) const {
    const KvLayout::Layer& l = shape_.layout.layer(layer);
    return {pool() + l.keys_at, pool() + l.values_at, stride_, l.kv_heads, l.head_dim, shape_.block_size, shape_.type};
  }
  int64_t block_bytes() const { return stride_; }
  /// Returns the bytes of a block that belong to the model.
  int64_t own_bytes() const { return shape_.block_bytes(); }
  std::byte* pool() const { return first_; }

 private:
  KvShape shape_;
  std::byte* first_;
  int64_t stride_;
};

/// Returns the number type of keys and values that the setting names. Throws SettingsError for a type that the CPU does
/// not support.
NumberType KvTypeOf(KvCacheDtype dtype);

}  // namespace quire
