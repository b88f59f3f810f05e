#include "worker/model/state_layout.h"

#include "kernels/causal_conv.h"
#include "kernels/state_view.h"

namespace quire {

StateLayout::StateLayout(const ModelSpec& spec, const RankShard& shard) {
  const auto take = [this](int64_t part) {
    const int64_t at = bytes;
    bytes += (part + 63) / 64 * 64;
    return at;
  };
  const Recurrence& r = spec.recurrence;
  for (const LayerSpec& layer : spec.layers) {
    const bool mine = shard.stage.Contains(std::ssize(layers));
    Layer& place = layers.emplace_back();
    if (!layer.has_state() || !mine) continue;
    place.index = num_kept++;
    place.convolution_at = take(kernels::CausalConvStateBytes(ConvolvedChannels(spec, shard), r.taps));
    if (layer.has_state_heads())
      place.heads_at = take(kernels::HeadStateBytes(shard.value_heads.size(), r.key_dim, r.value_dim));
  }
}

}  // namespace quire
