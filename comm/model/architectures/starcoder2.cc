// StarCoder2 has LayerNorm, grouped-query attention, a sliding window, biases, and an MLP without a gate. All tensors
// except the MLP's have Llama's names.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

ModelSpec StarCoder2FromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 4096, .epsilon = "norm_epsilon"}, true);
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 2));
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu_pytorch_tanh");
  config.Has("activation_function");  // accepted and ignored, as in HF; left over from training
  spec.ropes = {RopeFromHf(config, spec.layers[0].head_dim, {})};
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("sliding_window", 0);
  const bool biased = config.Flag("use_bias", true);
  SetBiases(spec, biased, biased);
  return spec;
}

ModelSpec StarCoder2FromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGeluTanh;
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("attention.sliding_window", 0);
  return spec;
}

std::vector<WeightSpec> StarCoder2Weights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  std::erase_if(weights, [](const WeightSpec& weight) { return weight.role == kGate; });
  Rename(weights, kUp, "model.layers.{}.mlp.c_fc.weight");
  Rename(weights, kDown, "model.layers.{}.mlp.c_proj.weight");
  AddNormBiases(weights);
  AddQkvBiases(weights, true);
  AddAttentionOutBias(weights);
  weights.insert(weights.end(), {{kUpBias, "model.layers.{}.mlp.c_fc.bias", kMlp, kOne},
                                 {kDownBias, "model.layers.{}.mlp.c_proj.bias", kHidden, kOne}});
  return WithoutMissingBiases(spec, std::move(weights));
}

}  // namespace

constexpr Architecture kStarCoder2 = {"starcoder2", "starcoder2", StarCoder2FromHf, StarCoder2FromGguf,
                                      StarCoder2Weights};

}  // namespace quire::architectures
