// GLM-4.5 and later models are Llama with biases or norms of queries and keys. RoPE rotates a part of each head. Dense
// layers come first, then mixtures of experts with a shared expert. The routers use sigmoids with a correction bias,
// and groups of experts.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

ModelSpec Glm4MoeFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.partial = 0.5});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.qkv_bias = config.Flag("attention_bias");
  spec.qk_norm = config.Flag("use_qk_norm") ? QkNorm::kHeads : QkNorm::kNone;
  SetMixtureFrom(config.Count("first_k_dense_replace", 1), spec, CorrectedMixtureFromHf(config, true), config.path());
  return spec;
}

/// Reads Solar Open: mixtures in all layers, and rotation of whole heads.
ModelSpec SolarOpenFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 1000000});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 8));
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
  spec.qkv_bias = config.Flag("attention_bias");
  for (const char* ignored : {"first_k_dense_replace", "use_qk_norm", "partial_rotary_factor"}) config.Has(ignored);
  SetMixture(spec, CorrectedMixtureFromHf(config, true));
  return spec;
}

ModelSpec Glm4MoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  DropFurtherLayers(config, spec);
  spec.qkv_bias = Has(config, Role::kQueryBias);
  spec.qk_norm = Has(config, Role::kQueryNorm) ? QkNorm::kHeads : QkNorm::kNone;
  SetMixtureFrom(config.Count("leading_dense_block_count", 0), spec, CorrectedMixtureFromGguf(config), config.path());
  return spec;
}

std::vector<WeightSpec> Glm4MoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  WeightOf(weights, Role::kMlpNorm).gguf = GgufName(Role::kAttentionAfterNorm);
  if (spec.qkv_bias) AddQkvBiases(weights, false);
  if (spec.qk_norm == QkNorm::kHeads) AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  AddMixtureWeights(spec, kCorrectedMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kGlm4Moe = {
    .hf = "glm4_moe",
    .gguf = "glm4moe",
    .from_hf = Glm4MoeFromHf,
    .from_gguf = Glm4MoeFromGguf,
    .weights = Glm4MoeWeights,
    .prediction = PredictionForm::kLikeDeepseek,
};

constexpr Architecture kSolarOpen = {"solar_open", nullptr, SolarOpenFromHf, nullptr, Glm4MoeWeights};

}  // namespace quire::architectures
