#include "worker/cpu/kv_cache.h"

namespace quire {

KvCache::KvCache(const ModelConfig& config, const RankShard& shard, int64_t block_size, int64_t num_blocks)
    : kv_heads_(shard.kv_heads.size()),
      head_dim_(config.head_dim),
      block_size_(block_size),
      num_blocks_(num_blocks),
      block_floats_(BlockFloats(config, shard, block_size)),
      memory_(static_cast<size_t>(num_blocks * block_floats_) * sizeof(float)) {}

kernels::KvCacheView KvCache::Layer(int64_t layer) const {
  const int64_t half = kv_heads_ * head_dim_ * block_size_;
  float* keys = pool() + layer * 2 * half;
  return {keys, keys + half, block_floats_, kv_heads_, head_dim_, block_size_};
}

}  // namespace quire
