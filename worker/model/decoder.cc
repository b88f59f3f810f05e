#include "worker/model/decoder.h"

namespace quire {

void Decode(const ModelSpec& spec, DecoderOps& ops) {
  ops.Embed();
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    ops.NormQkv(layer);
    ops.PositionAndStore(layer);
    ops.Attend(layer);
    if (spec.parallel_block) {
      ops.NormMlpIn(layer);
      ops.AddAttentionAndMlp(layer);
      continue;
    }
    ops.AddAttention(layer);

    if (spec.layers[static_cast<size_t>(layer)].mixture) {
      ops.NormRoute(layer);
      ops.AddExperts(layer);
    } else {
      ops.NormMlpIn(layer);
      ops.AddMlp(layer);
    }
    if (spec.layer_input_size > 0) ops.AddLayerInput(layer);
  }
  ops.Logits();
}

}  // namespace quire
