// SmolLM3: Llama in which every fourth layer does not rotate.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

constexpr int64_t kUsualInterval = 4;

/// Reads which layers rotate. no_rope_layers has a 1 for each layer that rotates; without that list, every
/// `no_rope_layer_interval`-th layer does not rotate.
void ReadRotation(const HfConfig& config, ModelSpec& spec) {
  const std::vector<double> listed = config.Reals("no_rope_layers");
  const int64_t interval = config.Count("no_rope_layer_interval", kUsualInterval);
  if (interval < 1) Fail("{}: no_rope_layer_interval = {} is out of range", config.path(), interval);
  if (!listed.empty() && listed.size() != spec.layers.size()) {
    Fail("{}: no_rope_layers lists {} layers of {}", config.path(), listed.size(), spec.layers.size());
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool rotates = listed.empty() ? static_cast<int64_t>(i + 1) % interval != 0 : listed[i] != 0;
    spec.layers[i].rope = rotates ? 0 : -1;
  }
}

ModelSpec SmolLm3FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 2000000});
  spec.tied_embeddings = config.Flag("tie_word_embeddings", true);
  ReadRotation(config, spec);
  const int64_t window = config.Flag("use_sliding_window") ? config.Count("sliding_window", 0) : 0;
  ReadKinds(config, spec, window, [&](int64_t layer) { return spec.layers[static_cast<size_t>(layer)].rope < 0; });
  return spec;
}

/// Reads a GGUF file. GGUF files do not state which layers rotate.
ModelSpec SmolLm3FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].rope = (i + 1) % kUsualInterval != 0 ? 0 : -1;
  return spec;
}

}  // namespace

constexpr Architecture kSmolLm3 = {"smollm3", "smollm3", SmolLm3FromHf, SmolLm3FromGguf, LlamaWeights};

}  // namespace quire::architectures
