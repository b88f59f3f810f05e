// GLM-4 has biases of queries, keys and values. RoPE rotates a part of each head, in pairs of neighbouring dimensions.
// The MLP's gates and ups share a tensor. GLM-4-0414 also has norms after attention and MLP.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

ModelSpec GlmFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.partial = 0.5});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1.5625e-7);
  spec.qkv_bias = config.Flag("attention_bias", true);
  spec.interleaved_rope_rows = true;
  return spec;
}

ModelSpec Glm4FromHf(const HfConfig& config) {
  ModelSpec spec = GlmFromHf(config);
  spec.norms_after = true;
  return spec;
}

ModelSpec Glm4FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  spec.qkv_bias = Has(config, Role::kQueryBias);
  spec.norms_after = true;
  return spec;
}

std::vector<WeightSpec> GlmWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  FuseGatesAndUps(weights);
  if (spec.qkv_bias) AddQkvBiases(weights, true);
  return weights;
}

std::vector<WeightSpec> Glm4Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = GlmWeights(spec);
  AddNormsAfter(weights);
  Rename(weights, Role::kAttentionAfterNorm, "model.layers.{}.post_self_attn_layernorm.weight");
  Rename(weights, Role::kMlpAfterNorm, kPostMlpNorm);
  return weights;
}

}  // namespace

constexpr Architecture kGlm = {"glm", nullptr, GlmFromHf, nullptr, GlmWeights};
constexpr Architecture kGlm4 = {"glm4", "glm4", Glm4FromHf, Glm4FromGguf, Glm4Weights};

}  // namespace quire::architectures
