#include "worker/model/kv_layout.h"

#include <algorithm>

namespace quire {

namespace {

/// Returns the bytes of a block in a stage without keys and values, chosen so that a sequence's state takes about as
/// many blocks as on a rank with all layers. The result is at least the size of one layer's keys and values, because
/// every rank has blocks.
int64_t BytesForStates(const ModelSpec& spec, const RankShard& shard,
                       const std::function<int64_t(int64_t)>& head_bytes) {
  int64_t states = 0;
  for (int64_t i = shard.stage.begin; i < shard.stage.end; ++i)
    states += spec.layers[static_cast<size_t>(i)].has_state() ? 1 : 0;
  const int64_t with_keys = std::ranges::count_if(spec.layers, &LayerSpec::has_kv);
  const int64_t all_states = std::max<int64_t>(1, spec.num_state_layers());
  const int64_t layers = std::max<int64_t>(1, (with_keys * states + all_states - 1) / all_states);
  const int64_t first = spec.first_attention_layer();
  return layers * 2 * shard.layer(first).kv_heads.size() * head_bytes(spec.layers[static_cast<size_t>(first)].head_dim);
}

}  // namespace

KvLayout::KvLayout(const ModelSpec& spec, const RankShard& shard, const std::function<int64_t(int64_t)>& head_bytes,
                   bool latents_once) {
  const bool has_values = !latents_once || spec.latent.rank == 0;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    if (!layer.has_attention() || !shard.stage.Contains(static_cast<int64_t>(i))) {
      layers.emplace_back();
    } else if (!layer.has_kv()) {
      layers.push_back(layers[static_cast<size_t>(layer.kv_from_layer)]);
    } else {
      const int64_t heads = shard.layers[i].kv_heads.size(), half = heads * head_bytes(layer.head_dim);
      layers.push_back({heads, layer.head_dim, block_bytes, block_bytes + (has_values ? half : 0)});
      block_bytes += has_values ? 2 * half : half;
    }
  }
  if (block_bytes == 0) block_bytes = BytesForStates(spec, shard, head_bytes);
}

}  // namespace quire
