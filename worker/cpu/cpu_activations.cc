#include "worker/cpu/cpu_activations.h"

#include <algorithm>

namespace quire {

CpuActivations::CpuActivations(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens) {
  int64_t qkv_width = 0, heads_width = 0, mlp_width = 0;
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    qkv_width = std::max(qkv_width, QkvWidth(spec, shard, layer));
    heads_width = std::max(heads_width, shard.heads.size() * spec.layers[static_cast<size_t>(layer)].value_size());
    mlp_width = std::max(mlp_width, shard.layer(layer).mlp.size());
  }
  const auto rows = [&](int64_t width) { return static_cast<size_t>(max_tokens * width); };
  residual.resize(rows(spec.hidden_size));
  normed.resize(rows(spec.hidden_size));
  qkv.resize(rows(qkv_width));
  attended.resize(rows(heads_width));
  if (spec.gated_mlp) gate_up.resize(static_cast<size_t>(std::min(max_tokens, kRowsTogether) * 2 * mlp_width));
  activated.resize(rows(mlp_width));
  delta.resize(rows(spec.hidden_size));
  layer_inputs.resize(rows(spec.num_layers() * spec.layer_input_size));
  gated_input.resize(rows(spec.layer_input_size));
  if (spec.qk_norm == QkNorm::kWhole) squares.resize(2 * rows(2));
}

}  // namespace quire
