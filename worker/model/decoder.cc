#include "worker/model/decoder.h"

#include "comm/base/error.h"

namespace quire {

namespace {

[[noreturn]] void FailWithoutStates(int64_t layer) { Fail("layer {} keeps a state, which this engine cannot", layer); }

}  // namespace

void DecoderOps::NormMixerIn(int64_t layer) { FailWithoutStates(layer); }
void DecoderOps::MixTokens(int64_t layer) { FailWithoutStates(layer); }
void DecoderOps::AddMixed(int64_t layer) { FailWithoutStates(layer); }

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
