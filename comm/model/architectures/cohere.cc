// Cohere (Command R) and Cohere 2 (Command R7B, Command A) have Llama's projections. Attention and MLP are parallel and
// share one LayerNorm without a bias. RoPE rotates pairs of neighbouring dimensions, and the logits are scaled. In
// Cohere 2 only layers with a sliding window use RoPE.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

constexpr double kCohereTheta = 500000;  // default theta of the first generation
constexpr int64_t kCohereFullEvery = 4;

void MakeCohere(ModelSpec& spec) {
  spec.norm = NormKind::kLayer;
  spec.gated_mlp = true;
  spec.parallel_block = true;
  spec.shared_norm = true;
  spec.interleaved_rope_rows = true;
}

/// Disables rotation in layers without a window.
void RotateWindows(ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) layer.rope = layer.window > 0 ? 0 : -1;
}

ModelSpec CohereFromHf(const HfConfig& config, double theta) {
  ModelSpec spec = LlamaFromHf(config, {.theta = theta});
  SetHeadDim(config, spec);
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-5);
  MakeCohere(spec);
  spec.activation = ActivationFromHf(config, "hidden_act", "silu");
  spec.tied_embeddings = config.Flag("tie_word_embeddings", true);
  spec.logit_scale = config.Real("logit_scale", 0.0625);
  SetBiases(spec, config.Flag("attention_bias"), false);
  return spec;
}

ModelSpec CohereFromHf(const HfConfig& config) { return CohereFromHf(config, kCohereTheta); }

ModelSpec SecondFromHf(const HfConfig& config) {
  ModelSpec spec = CohereFromHf(config, RopeHabits().theta);
  const int64_t full_every = config.Count("sliding_window_pattern", kCohereFullEvery);
  if (full_every < 1) Fail("{}: sliding_window_pattern = {} is out of range", config.path(), full_every);
  ReadKinds(config, spec, config.Count("sliding_window", 4096),
            [&](int64_t layer) { return (layer + 1) % full_every != 0; });
  RotateWindows(spec);
  return spec;
}

ModelSpec CohereFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  MakeCohere(spec);
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  spec.logit_scale = config.Real("logit_scale", 1);
  return spec;
}

ModelSpec SecondFromGguf(const GgufConfig& config) {
  ModelSpec spec = CohereFromGguf(config);
  spec.SetAll(&LayerSpec::window, config.Count("attention.sliding_window"));
  KeepWindows(config, spec, kCohereFullEvery);
  RotateWindows(spec);
  return spec;
}

std::vector<WeightSpec> CohereWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  std::erase_if(weights, [](const WeightSpec& weight) { return weight.role == Role::kMlpNorm; });
  if (spec.qkv_bias) AddQkvBiases(weights, true);
  if (spec.out_bias) AddAttentionOutBias(weights);
  return weights;
}

}  // namespace

constexpr Architecture kCohere = {"cohere", "command-r", CohereFromHf, CohereFromGguf, CohereWeights};
constexpr Architecture kCohere2 = {"cohere2", "cohere2", SecondFromHf, SecondFromGguf, CohereWeights};

}  // namespace quire::architectures
