// Qwen2, Qwen2.5 and Qwen3: Llama's layers, where the second generation has biases on queries, keys and values, and the
// third norms queries and keys head by head.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

/// Layers slide from max_window_layers on, or as newer files list them, and only with use_sliding_window.
void ReadWindows(const HfConfig& config, ModelSpec& spec) {
  const int64_t first = config.Count("max_window_layers", 28);
  const int64_t window = config.Flag("use_sliding_window") ? config.Count("sliding_window") : 0;
  ReadKinds(config, spec, window, [&](int64_t layer) { return layer >= first; });
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
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
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
  AddQkvBiases(weights, false);
  return weights;
}

std::vector<WeightSpec> Qwen3Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  return weights;
}

}  // namespace

constexpr Architecture kQwen2 = {"qwen2", "qwen2", Qwen2FromHf, Qwen2FromGguf, Qwen2Weights};
constexpr Architecture kQwen3 = {"qwen3", "qwen3", Qwen3FromHf, Qwen3FromGguf, Qwen3Weights};

}  // namespace quire::architectures
