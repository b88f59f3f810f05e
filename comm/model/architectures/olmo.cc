// OLMo 2 and 3 have norms after attention and MLP instead of before them, and normalize all queries of a token
// together, and all its keys together. In OLMo 3, three of four layers have a sliding window. In the fourth, RoPE is
// scaled for long contexts.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

constexpr int64_t kOlmoFullEvery = 4;

void AddNorms(ModelSpec& spec) {
  spec.norms_before = false;
  spec.norms_after = true;
  spec.qk_norm = QkNorm::kWhole;
}

/// Gives layers with a window a second rope without scaling, if the first rope has scaling.
void GiveRopes(ModelSpec& spec) {
  Rope plain;
  plain.theta = spec.ropes[0].theta;
  if (TextOf(plain) == TextOf(spec.ropes[0])) return;
  spec.ropes.push_back(plain);
  for (LayerSpec& layer : spec.layers) layer.rope = layer.window > 0 ? 1 : 0;
}

ModelSpec Olmo2FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  AddNorms(spec);
  return spec;
}

ModelSpec Olmo3FromHf(const HfConfig& config) {
  constexpr double kTheta = 500000;
  ModelSpec spec = LlamaFromHf(config, {.theta = kTheta, .by_kind = true});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  AddNorms(spec);
  ReadKinds(config, spec, config.Count("sliding_window", 4096),
            [](int64_t layer) { return (layer + 1) % kOlmoFullEvery != 0; });
  const std::optional<RopesOfKinds> ropes = RopesOfKindsFromHf(config, spec.layers[0].head_dim, kTheta, kTheta);
  if (!ropes) {
    GiveRopes(spec);
    return spec;
  }
  spec.ropes = {ropes->full, ropes->sliding};
  for (LayerSpec& layer : spec.layers) layer.rope = layer.window > 0 ? 1 : 0;
  return spec;
}

/// Reads a GGUF file. The third generation is the second with a window.
ModelSpec Olmo2FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  AddNorms(spec);
  KeepWindows(config, spec, kOlmoFullEvery);
  if (spec.layers[0].window > 0) GiveRopes(spec);
  return spec;
}

std::vector<WeightSpec> OlmoWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  std::erase_if(weights,
                [](const WeightSpec& w) { return w.role == Role::kAttentionNorm || w.role == Role::kMlpNorm; });
  AddNormsAfter(weights);
  AddQueryKeyNorms(weights, Axis::kQueries, Axis::kKeyValues);
  return weights;
}

}  // namespace

constexpr Architecture kOlmo2 = {"olmo2", "olmo2", Olmo2FromHf, Olmo2FromGguf, OlmoWeights};
constexpr Architecture kOlmo3 = {"olmo3", nullptr, Olmo3FromHf, nullptr, OlmoWeights};

}  // namespace quire::architectures
