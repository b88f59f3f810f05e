// Qwen2 and Qwen3 models with mixtures of experts have the attention of the dense models, with experts in some or all
// layers. Qwen2 mixtures also have a shared expert.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// Reads a Qwen2 mixture. If sliding windows are on, HF gives a window to every other layer, from layer 0 to the layer
/// before max_window_layers.
ModelSpec Qwen2MoeFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.qkv_bias = config.Flag("qkv_bias", true);
  const int64_t last = config.Count("max_window_layers", 28);
  const int64_t window = config.Flag("use_sliding_window") ? config.Count("sliding_window", 4096) : 0;
  ReadKinds(config, spec, window, [&](int64_t layer) { return layer % 2 == 0 && layer < last; });
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.shared_intermediate_size = config.Count("shared_expert_intermediate_size");
  mixture.shared_gate = mixture.shared_intermediate_size > 0;
  mixture.renormalize = config.Flag("norm_topk_prob");
  SetMixtureWhereSparse(config, spec, mixture);
  return spec;
}

ModelSpec Qwen2MoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qkv_bias = true;
  Mixture mixture = MixtureFromGguf(config);
  mixture.shared_intermediate_size = config.Count("expert_shared_feed_forward_length", 0);
  mixture.shared_gate = mixture.shared_intermediate_size > 0;
  SetMixture(spec, mixture);
  return spec;
}

ModelSpec Qwen3MoeFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.qk_norm = QkNorm::kHeads;
  const int64_t window = config.Flag("use_sliding_window") ? config.Count("sliding_window", 4096) : 0;
  for (LayerSpec& layer : spec.layers) layer.window = window;
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.renormalize = config.Flag("norm_topk_prob");
  SetMixtureWhereSparse(config, spec, mixture);
  return spec;
}

/// Reads a GGUF file. The weights of the chosen experts are always divided by their sum; GGUF files do not state this.
ModelSpec Qwen3MoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qk_norm = QkNorm::kHeads;
  Mixture mixture = MixtureFromGguf(config);
  mixture.renormalize = true;
  SetMixture(spec, mixture);
  return spec;
}

std::vector<WeightSpec> Qwen2MoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  if (spec.qkv_bias) AddQkvBiases(weights, false);
  AddMixtureWeights(spec, kQwenMixtureNames, weights);
  return weights;
}

std::vector<WeightSpec> Qwen3MoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  AddMixtureWeights(spec, kQwenMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kQwen2Moe = {"qwen2_moe", "qwen2moe", Qwen2MoeFromHf, Qwen2MoeFromGguf, Qwen2MoeWeights};
constexpr Architecture kQwen3Moe = {"qwen3_moe", "qwen3moe", Qwen3MoeFromHf, Qwen3MoeFromGguf, Qwen3MoeWeights};

}  // namespace quire::architectures
