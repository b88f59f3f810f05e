#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/model/shard.h"

namespace quire {

/// Where the keys and values of a rank's layers are in its KV blocks: [layers that have their own][keys, values][the
/// layer's local kv heads]. A block of all layers is contiguous. Layers that read another's keys and values are where
/// that one is, and layers without attention nowhere: they take no part of a block.
struct KvLayout {
  struct Layer {
    int64_t kv_heads = 0;  // local; 0 without attention
    int64_t head_dim = 0;
    int64_t keys_at = 0, values_at = 0;  // bytes from the beginning of a block
  };

  /// `head_bytes`: what keys or values of one head of so many numbers take in a block.
  KvLayout(const ModelSpec& spec, const RankShard& shard, const std::function<int64_t(int64_t)>& head_bytes);

  const Layer& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }

  std::vector<Layer> layers;
  int64_t block_bytes = 0;  // of all layers
};

}  // namespace quire
