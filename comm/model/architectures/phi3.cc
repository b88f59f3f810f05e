// Phi-3, Phi-3.5 and Phi-4 have Llama's layers with fused queries, keys and values, and fused gates and ups. In some
// models RoPE rotates only a part of each head, or is scaled with longrope. All layers share one sliding window.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

ModelSpec Phi3FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.partial = 1, .calls_longrope_otherwise = true});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("sliding_window", 0);
  return spec;
}

std::vector<WeightSpec> Phi3Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  Fuse(weights, {Role::kQuery, Role::kKey, Role::kValue}, "model.layers.{}.self_attn.qkv_proj.weight", kGgufQkv);
  FuseGatesAndUps(weights);
  return weights;
}

}  // namespace

constexpr Architecture kPhi3 = {"phi3", "phi3", Phi3FromHf, LlamaFromGguf, Phi3Weights};

}  // namespace quire::architectures
