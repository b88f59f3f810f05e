#include "worker/model/decoder.h"

namespace quire {

void Decode(const ModelSpec& spec, DecoderOps& ops) {
  ops.Embed();
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerSpec& kind = spec.layers[static_cast<size_t>(layer)];
    if (kind.has_attention()) {
      ops.NormQkv(layer);
      ops.PositionAndStore(layer);
      ops.Attend(layer);
      if (spec.parallel_block) {
        ops.NormMlpIn(layer);
        ops.AddAttentionAndMlp(layer);
        continue;
      }
      ops.AddAttention(layer);
    } else if (kind.has_state()) {
      ops.NormMixerIn(layer);
      ops.MixTokens(layer);
      ops.AddMixed(layer);
    }

    if (kind.mixture) {
      ops.NormRoute(layer);
      ops.AddExperts(layer);
    } else if (kind.mlp) {
      ops.NormMlpIn(layer);
      ops.AddMlp(layer);
    }
    if (spec.layer_input_size > 0) ops.AddLayerInput(layer);
  }
  ops.Logits();
}

}  // namespace quire
