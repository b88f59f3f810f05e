#include "worker/model/mixer_shape.h"

#include <algorithm>

namespace quire {

MixerShape::MixerShape(const ModelSpec& spec, const RankShard& shard) {
  const auto layer = std::ranges::find_if(spec.layers, &LayerSpec::has_state);
  if (layer == spec.layers.end()) return;
  mixer = layer->has_state_space() ? Mixer::kStateSpace : layer->mixer;
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

std::vector<float> FactorsOf(const ProductScales& scales, const MixerShape& shape) {
  if (!scales.scale_states()) return {};
  std::vector<float> factors(static_cast<size_t>(shape.in_width));
  const auto set = [&](int64_t begin, int64_t end, double factor) {
    std::fill(factors.begin() + begin, factors.begin() + end, static_cast<float>(factor));
  };
  set(0, shape.keys, scales.state_query);
  set(shape.keys, shape.values, scales.state_key);
  set(shape.values, shape.gates, scales.state_value);
  set(shape.gates, shape.decays, scales.state_gate);
  set(shape.decays, shape.in_width, scales.state_decay);
  return factors;
}

}  // namespace quire
