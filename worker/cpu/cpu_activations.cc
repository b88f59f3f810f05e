#include "worker/cpu/cpu_activations.h"

#include <algorithm>

#include "worker/cpu/buffer_list.h"

namespace quire {

template <class Make>
void CpuActivations::ForEach(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens, const Make& make) {
  int64_t qkv_width = 0, heads_width = 0, mlp_width = 0;
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    qkv_width = std::max(qkv_width, QkvWidth(spec, shard, layer));
    heads_width = std::max(heads_width, shard.heads.size() * spec.layers[static_cast<size_t>(layer)].value_size());
    mlp_width = std::max(mlp_width, shard.layer(layer).mlp.size());
  }
  make(residual, max_tokens * spec.hidden_size);
  make(normed, max_tokens * spec.hidden_size);
  make(qkv, max_tokens * qkv_width);
  make(attended, max_tokens * heads_width);
  if (spec.gated_mlp) make(gate_up, std::min(max_tokens, kRowsTogether) * 2 * mlp_width);
  make(activated, max_tokens * mlp_width);
  make(delta, max_tokens * spec.hidden_size);
  make(layer_inputs, max_tokens * spec.num_layers() * spec.layer_input_size);
  make(gated_input, max_tokens * spec.layer_input_size);
  if (spec.qk_norm == QkNorm::kWhole) make(squares, 2 * 2 * max_tokens);
}

CpuActivations::CpuActivations(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens) {
  ForEach(spec, shard, max_tokens, ResizeBuffer);
}

int64_t CpuActivations::Bytes(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens) {
  BufferBytes bytes;
  CpuActivations().ForEach(spec, shard, max_tokens, bytes.counter());
  return bytes.sum();
}

}  // namespace quire
