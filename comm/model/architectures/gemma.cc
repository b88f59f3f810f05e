// Gemma 1 to 3 (text) scale the embeddings and use GELU in the MLP's gate. From the second generation on, there are
// norms before and after attention and MLP. Many layers have sliding windows: usually every other layer in Gemma 2, and
// five of six layers in Gemma 3. Gemma 2 caps attention scores and logits. Gemma 3 normalizes each query head and key
// head, and uses different RoPE settings in layers with and without a window.
#include <cmath>

#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

constexpr int64_t kFullEvery2 = 2, kFullEvery3 = 6;

void MakeGemma(ModelSpec& spec) {
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  spec.activation = Activation::kGeluTanh;
}

/// Reads the settings that all generations share.
ModelSpec GemmaFromHf(const HfConfig& config, const RopeHabits& habits) {
  ModelSpec spec = LlamaFromHf(config, habits);
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 256));
  spec.tied_embeddings = config.Flag("tie_word_embeddings", true);
  MakeGemma(spec);
  spec.norms_add_one = true;
  return spec;
}

/// Reads the first generation. Early files write "gelu" for the tanh approximation that the models were trained with.
/// HF ignores hidden_activation, which some of these files also have.
ModelSpec Gemma1FromHf(const HfConfig& config) {
  ModelSpec spec = GemmaFromHf(config, {});
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 16));
  config.Has("hidden_activation");
  const std::string activation = config.Text("hidden_act", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh" && activation != "gelu") {
    Fail("{}: hidden_act \"{}\" is not supported", config.path(), activation.substr(0, 100));
  }
  return spec;
}

/// Reads the settings that the second and third generations share.
ModelSpec SlidingGemmaFromHf(const HfConfig& config, const RopeHabits& habits, int64_t full_every) {
  ModelSpec spec = GemmaFromHf(config, habits);
  spec.norms_after = true;
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 4));
  config.Has("hidden_act");  // accepted and ignored, as in HF; older files have the key, too
  const std::string activation = config.Text("hidden_activation", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh") {
    Fail("{}: hidden_activation \"{}\" is not supported", config.path(), activation.substr(0, 100));
  }
  const double scalar = config.Real("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) Fail("{}: query_pre_attn_scalar {} is out of range", config.path(), scalar);
  spec.attention_scale = 1 / std::sqrt(scalar);
  ReadKinds(config, spec, config.Count("sliding_window", 4096),
            [&](int64_t layer) { return (layer + 1) % full_every != 0; });
  return spec;
}

ModelSpec Gemma2FromHf(const HfConfig& config) {
  ModelSpec spec = SlidingGemmaFromHf(config, {}, kFullEvery2);
  spec.score_cap = config.RealOrNull("attn_logit_softcapping", 50);
  spec.logit_cap = config.RealOrNull("final_logit_softcapping", 30);
  return spec;
}

void GiveRopes(ModelSpec& spec, const Rope& full, const Rope& sliding) {
  spec.ropes = {full, sliding};
  for (LayerSpec& layer : spec.layers) layer.rope = layer.window > 0 ? 1 : 0;
}

ModelSpec Gemma3FromHf(const HfConfig& config) {
  constexpr double kTheta = 1000000, kLocalTheta = 10000;
  const int64_t full_every = config.Count("sliding_window_pattern", kFullEvery3);
  if (full_every < 1) Fail("{}: sliding_window_pattern = {} is out of range", config.path(), full_every);
  ModelSpec spec = SlidingGemmaFromHf(config, {.theta = kTheta, .by_kind = true}, full_every);
  spec.qk_norm = QkNorm::kHeads;
  spec.logit_cap = config.Real("final_logit_softcapping", 0);
  Rope full, local;
  if (const auto ropes = RopesOfKindsFromHf(config, spec.layers[0].head_dim, kTheta, kLocalTheta)) {
    full = ropes->full;
    local = ropes->sliding;
  } else {
    full = spec.ropes[0];
    local.theta = config.Real("rope_local_base_freq", kLocalTheta);
  }
  GiveRopes(spec, full, local);
  return spec;
}

ModelSpec GemmaFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  MakeGemma(spec);
  return spec;
}

/// Reads a GGUF file of Gemma 2 or Gemma 3. If a file lacks the scale of attention scores, the family's largest model,
/// known by its `layers_of_largest` layers, has the scale 1 / sqrt(hidden size / heads).
ModelSpec SlidingGemmaFromGguf(const GgufConfig& config, int64_t full_every, int64_t layers_of_largest) {
  ModelSpec spec = GemmaFromGguf(config);
  spec.norms_after = true;
  KeepWindows(config, spec, full_every);
  if (spec.num_layers() == layers_of_largest) {
    spec.attention_scale = 1 / std::sqrt(static_cast<double>(spec.hidden_size) / static_cast<double>(spec.num_heads));
  }
  spec.attention_scale = config.Real("attention.scale", spec.attention_scale);
  spec.logit_cap = config.Real("final_logit_softcapping", 0);
  return spec;
}

ModelSpec Gemma2FromGguf(const GgufConfig& config) {
  ModelSpec spec = SlidingGemmaFromGguf(config, kFullEvery2, 46);
  spec.score_cap = config.Real("attn_logit_softcapping", 0);
  return spec;
}

ModelSpec Gemma3FromGguf(const GgufConfig& config) {
  ModelSpec spec = SlidingGemmaFromGguf(config, kFullEvery3, 62);
  spec.qk_norm = QkNorm::kHeads;
  Rope local;
  local.theta = config.Real("rope.freq_base_swa", local.theta);
  GiveRopes(spec, spec.ropes[0], local);
  return spec;
}

std::vector<WeightSpec> Gemma2Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddNormsAround(weights);
  return weights;
}

std::vector<WeightSpec> Gemma3Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = Gemma2Weights(spec);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  return weights;
}

}  // namespace

constexpr Architecture kGemma = {"gemma", "gemma", Gemma1FromHf, GemmaFromGguf, LlamaWeights};
constexpr Architecture kGemma2 = {"gemma2", "gemma2", Gemma2FromHf, Gemma2FromGguf, Gemma2Weights};
constexpr Architecture kGemma3 = {"gemma3_text", "gemma3", Gemma3FromHf, Gemma3FromGguf, Gemma3Weights};

}  // namespace quire::architectures
