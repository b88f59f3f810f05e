#include "worker/model/kv_layout.h"

namespace quire {

KvLayout::KvLayout(const ModelSpec& spec, const RankShard& shard, const std::function<int64_t(int64_t)>& head_bytes) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    if (!layer.has_attention() || !shard.stage.Contains(static_cast<int64_t>(i))) {
      layers.emplace_back();
    } else if (!layer.has_kv()) {
      layers.push_back(layers[static_cast<size_t>(layer.kv_from_layer)]);
    } else {
      const int64_t heads = shard.layers[i].kv_heads.size(), half = heads * head_bytes(layer.head_dim);
      layers.push_back({heads, layer.head_dim, block_bytes, block_bytes + half});
      block_bytes += 2 * half;
    }
  }
}

}  // namespace quire
