#include "worker/model/mixer_shape.h"

#include <algorithm>

namespace quire {

MixerShape::MixerShape(const ModelSpec& spec, const RankShard& shard) {
  const auto layer = std::ranges::find_if(spec.layers, &LayerSpec::has_state);
  if (layer == spec.layers.end()) return;
  mixer = layer->mixer;
  if (!layer->has_state_heads()) {
    out_width = shard.channels.size();
    in_width = 3 * out_width;
    return;
  }
  const Recurrence& r = spec.recurrence;
  const int64_t value_heads = shard.value_heads.size();
  out_width = value_heads * r.value_dim;
  keys = shard.key_heads.size() * r.key_dim;
  values = 2 * keys;
  gates = ConvolvedChannels(spec, shard);
  betas = gates + out_width;
  decays = betas + (mixer == Mixer::kGatedDelta ? value_heads : 0);
  in_width = decays + value_heads;
}

}  // namespace quire
