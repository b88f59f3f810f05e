#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/model/shard.h"

namespace quire {

/// The byte layout of a rank's KV block: [layers with keys and values of their own][keys, values][the layer's local KV
/// heads]. One block holds all layers contiguously. A layer that reads another layer's keys and values has that layer's
/// offsets. With latents_once, latents (comm/model/latent_attention.h) have no values of their own: values_at is
/// keys_at. Layers without attention take no bytes of a block, and neither do layers of other stages. Where a stage has
/// no layer with keys and values, its blocks hold states alone (StateLayout). If such a stage has a fraction f of the
/// model's layers with states, its blocks are as large as those of a stage with a fraction f of the layers with keys
/// and values.
struct KvLayout {
  struct Layer {
    int64_t kv_heads = 0;  // number of KV heads on this rank; 0 in layers without attention
    int64_t head_dim = 0;
    int64_t keys_at = 0, values_at = 0;  // offsets in bytes from the start of a block
  };

  /// `head_bytes(head_dim)`: bytes that the keys, or the values, of one head take in a block.
  KvLayout(const ModelSpec& spec, const RankShard& shard, const std::function<int64_t(int64_t)>& head_bytes,
           bool latents_once = false);

  const Layer& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }

  std::vector<Layer> layers;
  int64_t block_bytes = 0;  // bytes of a block with all layers of the stage
};

}  // namespace quire
