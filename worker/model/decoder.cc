#include "worker/model/decoder.h"

namespace quire {

namespace {

/// Runs the part of a layer that follows attention or a mixer.
void FeedForward(const ModelSpec& spec, int64_t layer, DecoderOps& ops) {
  const LayerSpec& kind = spec.layers[static_cast<size_t>(layer)];
  if (kind.mixture) {
    ops.NormRoute(layer);
    ops.AddExperts(layer);
  } else if (kind.mlp) {
    ops.NormMlpIn(layer);
    ops.AddMlp(layer);
  }
  if (spec.layer_input_size > 0) ops.AddLayerInput(layer);
}

}  // namespace

void BeginLayer(int64_t layer, DecoderOps& ops) {
  ops.NormQkv(layer);
  ops.PositionAndStore(layer);
}

void FinishLayer(const ModelSpec& spec, int64_t layer, DecoderOps& ops) {
  ops.Attend(layer);
  if (spec.parallel_block) {
    ops.NormMlpIn(layer);
    ops.AddAttentionAndMlp(layer);
    return;
  }
  ops.AddAttention(layer);
  FeedForward(spec, layer, ops);
}

void Decode(const ModelSpec& spec, DecoderOps& ops) { Decode(spec, {0, spec.num_layers()}, ops); }

void Decode(const ModelSpec& spec, const Range& stage, DecoderOps& ops) {
  stage.begin == 0 ? ops.Embed() : ops.TakeRows();
  for (int64_t layer = stage.begin; layer < stage.end; ++layer) {
    const LayerSpec& kind = spec.layers[static_cast<size_t>(layer)];
    // A layer's mixers read the residual before any of them adds to it.
    if (kind.has_attention()) BeginLayer(layer, ops);
    if (kind.has_state()) {
      ops.NormMixerIn(layer);
      ops.MixTokens(layer);
      ops.AddMixed(layer);
    }
    if (kind.has_attention()) {
      FinishLayer(spec, layer, ops);
    } else {
      FeedForward(spec, layer, ops);
    }
  }
  stage.end == spec.num_layers() ? ops.Logits() : ops.GiveRows();
}

}  // namespace quire
