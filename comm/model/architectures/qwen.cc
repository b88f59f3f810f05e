// Qwen2, Qwen2.5 and Qwen3: Llama's layers, where the second generation has biases on queries, keys and values, and the
// third norms queries and keys head by head.
#include "comm/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

/// Layers slide from max_window_layers on, or as newer files list them, and only with use_sliding_window.
void ReadWindows(const HfConfig& config, ModelSpec& spec) {
  const bool slides = config.Flag("use_sliding_window");
  const std::vector<std::string> kinds = config.Texts("layer_types");
  if (!kinds.empty() && kinds.size() != spec.layers.size()) {
    Fail("{}: layer_types lists {} layers of {}", config.path(), kinds.size(), spec.layers.size());
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool full =
        kinds.empty() ? static_cast<int64_t>(i) < config.Count("max_window_layers", 28) : kinds[i] == "full_attention";
    if (!full && !kinds.empty() && kinds[i] != "sliding_attention") {
      Fail("{}: layer_types: \"{}\" is not supported", config.path(), kinds[i].substr(0, 100));
    }
    if (slides && !full) spec.layers[i].window = config.Count("sliding_window");
  }
}

ModelSpec Qwen2FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  ReadWindows(config, spec);
  spec.qkv_bias = true;
  config.Has("attention_bias");  // some files say so, too; HF does not look at it
  return spec;
}

ModelSpec Qwen2FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qkv_bias = true;
  return spec;
}

ModelSpec Qwen3FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  ReadWindows(config, spec);
  spec.head_dim = config.Count("head_dim", 128);
  spec.qk_norm = QkNorm::kHeads;
  return spec;
}

ModelSpec Qwen3FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qk_norm = QkNorm::kHeads;
  return spec;
}

std::vector<WeightSpec> Qwen2Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  const WeightSpec biases[] = {
      {Role::kQueryBias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", Axis::kQueries, Axis::kOne},
      {Role::kKeyBias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", Axis::kKeyValues, Axis::kOne},
      {Role::kValueBias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", Axis::kKeyValues, Axis::kOne}};
  weights.insert(weights.begin() + 1, std::begin(biases), std::end(biases));
  return weights;
}

std::vector<WeightSpec> Qwen3Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  const WeightSpec norms[] = {{Role::kQueryNorm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight",
                               Axis::kHeadDim, Axis::kOne},
                              {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight",
                               Axis::kHeadDim, Axis::kOne}};
  weights.insert(weights.begin() + 1, std::begin(norms), std::end(norms));
  return weights;
}

}  // namespace

constexpr Architecture kQwen2 = {"qwen2", "qwen2", Qwen2FromHf, Qwen2FromGguf, Qwen2Weights};
constexpr Architecture kQwen3 = {"qwen3", "qwen3", Qwen3FromHf, Qwen3FromGguf, Qwen3Weights};

}  // namespace quire::architectures
