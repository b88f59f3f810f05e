// Qwen2, Qwen2.5 and Qwen3 have Llama's layers. Qwen2 and Qwen2.5 have biases of queries, keys and values. Qwen3
// normalizes each query head and key head. The text models of Qwen2-VL and Qwen2.5-VL are like Qwen2, and that of
// Qwen3-VL is like Qwen3.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/rotation.h"

namespace quire::architectures {

namespace {

/// Reads the windows. Unless use_sliding_window is set, no layer has a window. Otherwise layer_types says which layers
/// have a window; in older files without layer_types, the layers from max_window_layers on have one.
void ReadWindows(const HfConfig& config, ModelSpec& spec, int64_t usual_first = 28) {
  const int64_t first = config.Count("max_window_layers", usual_first);
  const int64_t window = config.Flag("use_sliding_window") ? WindowOf(config, 4096) : 0;
  ReadKinds(config, spec, window, [&](int64_t layer) { return layer >= first; });
}

ModelSpec Qwen2FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  ReadWindows(config, spec);
  spec.qkv_bias = true;
  config.Has("attention_bias");  // accepted and ignored, as in HF; some files have the key
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

/// The rotation of the text models of Qwen2-VL, Qwen2.5-VL and Qwen3-VL. For text, the three positions of a sectioned
/// rotation are equal.
constexpr RopeHabits kQwenVl = {.theta = 1000000, .sections_agree = true};

ModelSpec Qwen2VlFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, kQwenVl);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  ReadWindows(config, spec, 80);
  spec.qkv_bias = true;
  config.Has("attention_bias");
  return spec;
}

ModelSpec Qwen3VlFromHf(const HfConfig& config) {
  RopeHabits habits = kQwenVl;
  habits.theta = 500000;
  ModelSpec spec = LlamaFromHf(config, habits);
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
  spec.qk_norm = QkNorm::kHeads;
  return spec;
}

ModelSpec Qwen2VlFromGguf(const GgufConfig& config) {
  ModelSpec spec = Qwen2FromGguf(config);
  config.Has("rope.dimension_sections");
  return spec;
}

ModelSpec Qwen3VlFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  config.Has("rope.dimension_sections");
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
constexpr Architecture kQwen2Vl = {"qwen2_vl_text", "qwen2vl", Qwen2VlFromHf, Qwen2VlFromGguf, Qwen2Weights};
constexpr Architecture kQwen25Vl = {"qwen2_5_vl_text", nullptr, Qwen2VlFromHf, nullptr, Qwen2Weights};
constexpr Architecture kQwen3Vl = {"qwen3_vl_text", "qwen3vl", Qwen3VlFromHf, Qwen3VlFromGguf, Qwen3Weights};

}  // namespace quire::architectures
