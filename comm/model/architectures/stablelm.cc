// StableLM is Llama with LayerNorm, in which RoPE rotates a part of each head. Attention and MLP may be parallel and
// share a norm.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

ModelSpec StableLmFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.partial = 0.25});
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-5);
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.activation = ActivationFromHf(config, "hidden_act", "silu");
  spec.parallel_block = spec.shared_norm = config.Flag("use_parallel_residual");
  spec.qkv_bias = config.Flag("use_qkv_bias");
  return spec;
}

/// Reads a GGUF file. The tensors tell whether attention and MLP are parallel. The key use_parallel_residual does not,
/// because some files set this key although attention and MLP have a norm each.
ModelSpec StableLmFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.gated_mlp = true;
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  config.Has("use_parallel_residual");
  spec.parallel_block = spec.shared_norm = !Has(config, Role::kMlpNorm);
  SetBiases(spec, false, false);
  spec.qkv_bias = Has(config, Role::kQueryBias);
  return spec;
}

std::vector<WeightSpec> StableLmWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  if (spec.shared_norm) std::erase_if(weights, [](const WeightSpec& weight) { return weight.role == Role::kMlpNorm; });
  AddNormBiases(weights);
  if (spec.qkv_bias) AddQkvBiases(weights, true);
  return weights;
}

}  // namespace

constexpr Architecture kStableLm = {"stablelm", "stablelm", StableLmFromHf, StableLmFromGguf, StableLmWeights};

}  // namespace quire::architectures
