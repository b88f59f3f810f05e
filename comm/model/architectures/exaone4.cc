// EXAONE 4 has norms after attention and MLP instead of before them, and normalizes each query head and key head. In
// the larger model three of four layers have a sliding window. The fourth sees the whole context and does not use RoPE.
// K-EXAONE has norms before attention and MLP. Its dense layers come first, then mixtures of experts with shared
// experts and with routers like DeepSeek-V3's.
#include <algorithm>

#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

constexpr int64_t kExaoneFullEvery = 4;

/// Sets the norms of heads and the layers that rotate. In a model with windows, only layers with a window rotate.
void MakeExaone(ModelSpec& spec, bool windows) {
  spec.qk_norm = QkNorm::kHeads;
  for (LayerSpec& layer : spec.layers) layer.rope = windows && layer.window == 0 ? -1 : 0;
}

void NormAfter(ModelSpec& spec) {
  spec.norms_before = false;
  spec.norms_after = true;
}

ModelSpec ExaoneFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 32));
  const int64_t window = WindowOf(config, 4096);
  // HF reads sliding_window_pattern only in files without layer_types, and only as a number. In other files Has() marks
  // the key as read, so that it is ignored.
  int64_t full_every = kExaoneFullEvery;
  if (KindsOfLayers(config, spec).empty()) {
    full_every = config.Count("sliding_window_pattern", kExaoneFullEvery);
    if (full_every < 1) Fail("{}: sliding_window_pattern = {} is out of range", config.path(), full_every);
  } else {
    config.Has("sliding_window_pattern");
  }
  ReadKinds(config, spec, window, [&](int64_t layer) { return window > 0 && (layer + 1) % full_every != 0; });
  MakeExaone(spec, window > 0);
  return spec;
}

ModelSpec Exaone4FromHf(const HfConfig& config) {
  ModelSpec spec = ExaoneFromHf(config);
  NormAfter(spec);
  return spec;
}

ModelSpec ExaoneMoeFromHf(const HfConfig& config) {
  ModelSpec spec = ExaoneFromHf(config);
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, config.Count("num_shared_experts", 1), config.path());
  mixture.score = RouterScore::kSigmoid;
  mixture.correction_bias = true;
  mixture.renormalize = config.Flag("norm_topk_prob", true);
  mixture.scale = config.Real("routed_scaling_factor", 2.5);
  mixture.groups = config.Count("n_group", 1);
  mixture.groups_per_token = config.Count("topk_group", 1);
  config.Has("scoring_func");  // accepted and ignored, as in HF, whose class uses sigmoids
  SetMixtureWhereListed(config, config.Count("first_k_dense_replace", 1), spec, mixture);
  return spec;
}

/// Reads a GGUF file. Files of the larger model name the window, but older files do not name the layers that have it.
ModelSpec Exaone4FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  const bool windows = spec.layers[0].window > 0;
  KeepWindows(config, spec, kExaoneFullEvery);
  MakeExaone(spec, windows);
  NormAfter(spec);
  return spec;
}

std::vector<WeightSpec> Exaone4Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  std::erase_if(weights,
                [](const WeightSpec& w) { return w.role == Role::kAttentionNorm || w.role == Role::kMlpNorm; });
  AddNormsAfter(weights);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  return weights;
}

std::vector<WeightSpec> ExaoneMoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  MixtureNames names = kCorrectedMixtureNames;
  names.correction = "model.layers.{}.mlp.e_score_correction_bias";
  AddMixtureWeights(spec, names, weights);
  return weights;
}

}  // namespace

constexpr Architecture kExaone4 = {"exaone4", "exaone4", Exaone4FromHf, Exaone4FromGguf, Exaone4Weights};
constexpr Architecture kExaoneMoe = {.hf = "exaone_moe",
                                     .gguf = nullptr,
                                     .from_hf = ExaoneMoeFromHf,
                                     .from_gguf = nullptr,
                                     .weights = ExaoneMoeWeights,
                                     .prediction = PredictionForm::kUnused};

}  // namespace quire::architectures
