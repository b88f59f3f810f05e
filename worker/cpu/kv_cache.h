#pragma once

#include "comm/model/model_config.h"
#include "kernels/kv_cache.h"
#include "worker/memory.h"
#include "worker/shard.h"

namespace quire {

/// One rank's KV blocks: [num_blocks][layers][keys, values][local kv heads][head_dim * block_size] floats.
/// Block 0 is the null block.
class KvCache {
 public:
  KvCache(const ModelConfig& config, const RankShard& shard, int64_t block_size, int64_t num_blocks);

  /// Floats and bytes of one block, all layers.
  static int64_t BlockFloats(const ModelConfig& config, const RankShard& shard, int64_t block_size) {
    return config.num_layers * 2 * shard.kv_heads.size() * config.head_dim * block_size;
  }
  static int64_t BlockBytes(const ModelConfig& config, const RankShard& shard, int64_t block_size) {
    return BlockFloats(config, shard, block_size) * static_cast<int64_t>(sizeof(float));
  }

  kernels::KvCacheView Layer(int64_t layer) const;
  float* pool() const { return reinterpret_cast<float*>(memory_.data()); }
  int64_t block_floats() const { return block_floats_; }
  int64_t block_size() const { return block_size_; }
  int64_t num_blocks() const { return num_blocks_; }

 private:
  int64_t kv_heads_, head_dim_, block_size_, num_blocks_, block_floats_;
  HostMemory memory_;
};

}  // namespace quire
