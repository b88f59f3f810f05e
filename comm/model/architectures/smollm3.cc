// SmolLM3 is Llama in which every fourth layer does not use RoPE.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/rotation.h"

namespace quire::architectures {

namespace {

ModelSpec SmolLm3FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 2000000});
  spec.tied_embeddings = config.Flag("tie_word_embeddings", true);
  const std::vector<bool> rotates = RotatingLayersFromHf(config, spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].rope = rotates[i] ? 0 : -1;
  const int64_t window = config.Flag("use_sliding_window") ? config.Count("sliding_window", 0) : 0;
  ReadKinds(config, spec, window, [&](int64_t layer) { return spec.layers[static_cast<size_t>(layer)].rope < 0; });
  return spec;
}

/// Reads a GGUF file. GGUF files do not state which layers rotate.
ModelSpec SmolLm3FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].rope = (i + 1) % kUsualRotationInterval != 0 ? 0 : -1;
  return spec;
}

}  // namespace

constexpr Architecture kSmolLm3 = {"smollm3", "smollm3", SmolLm3FromHf, SmolLm3FromGguf, LlamaWeights};

}  // namespace quire::architectures
