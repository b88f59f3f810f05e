// In Phi-1, Phi-1.5 and Phi-2, RoPE rotates a part of each head. Attention and MLP are parallel and share a norm. All
// products have biases, including the output head. Most tensors have Llama's names.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

void MakePhi(ModelSpec& spec) {
  spec.parallel_block = spec.shared_norm = true;
  spec.head_bias = true;
}

ModelSpec PhiFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {}, false);
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", spec.num_heads));
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu_new");
  spec.ropes = {RopeFromHf(config, spec.layers[0].head_dim, {.partial = 0.5})};
  MakePhi(spec);
  SetBiases(spec, true, true);
  return spec;
}

ModelSpec PhiFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGeluTanh;
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  MakePhi(spec);
  return spec;
}

std::vector<WeightSpec> PhiWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  std::erase_if(weights, [](const WeightSpec& weight) { return weight.role == kGate || weight.role == kMlpNorm; });
  Rename(weights, kAttentionOut, "model.layers.{}.self_attn.dense.weight");
  Rename(weights, kUp, "model.layers.{}.mlp.fc1.weight");
  Rename(weights, kDown, "model.layers.{}.mlp.fc2.weight");
  Rename(weights, kFinalNorm, kFinalLayerNorm);
  AddNormBiases(weights, "model.final_layernorm.bias");
  AddQkvBiases(weights, true);
  weights.insert(weights.end(), {{kAttentionOutBias, "model.layers.{}.self_attn.dense.bias", kHidden, kOne},
                                 {kUpBias, "model.layers.{}.mlp.fc1.bias", kMlp, kOne},
                                 {kDownBias, "model.layers.{}.mlp.fc2.bias", kHidden, kOne}});
  AddHeadBias(weights);
  return weights;
}

}  // namespace

constexpr Architecture kPhi = {"phi", "phi2", PhiFromHf, PhiFromGguf, PhiWeights};

}  // namespace quire::architectures
