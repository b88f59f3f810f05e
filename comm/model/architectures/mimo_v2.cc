// In MiMo-V2-Flash, heads have fewer dimensions for values than for keys. Five of six layers have sliding windows,
// attention sinks, and more key and value heads than the other layers. A dense layer comes first, then mixtures of
// experts. The routers use sigmoids with a correction bias.
#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

constexpr int64_t kMimoFullEvery = 6;
constexpr double kMimoTheta = 5000000, kMimoLocalTheta = 10000, kMimoPart = 0.334, kMimoValueScale = 0.707;

/// Throws Error unless layers with a window have heads of the same number and sizes as the other layers.
void RequireEqualHeads(const HfConfig& config) {
  for (const auto& [key, other] : {std::pair{"swa_head_dim", "head_dim"},
                                   {"swa_v_head_dim", "v_head_dim"},
                                   {"swa_num_attention_heads", "num_attention_heads"}}) {
    if (config.Has(key) && config.Has(other) && config.Count(key) != config.Count(other))
      Fail("{}: {} other than {} is not supported", config.path(), key, other);
  }
}

/// Reads the windows, and what differs between layers with a window and layers without. HF's files list the kinds of
/// layers in words, published files in numbers.
void ReadLayers(const HfConfig& config, ModelSpec& spec) {
  // A window in published files is the number of tokens before the query. HF's number counts the query, too.
  const int64_t window =
      config.Has("sliding_window_size") ? config.Count("sliding_window_size") + 1 : config.Count("sliding_window", 129);
  const std::vector<double> pattern = config.RealsOfLayers("hybrid_layer_pattern", spec.layers.size());
  ReadKinds(config, spec, window, [&](int64_t layer) {
    if (!pattern.empty()) return pattern[static_cast<size_t>(layer)] != 0;
    return layer != 0 && (layer + 1) % kMimoFullEvery != 0;
  });
  const int64_t kv_heads = config.Count("num_key_value_heads", 4);
  const int64_t local_heads = config.Count("swa_num_key_value_heads", 2 * kv_heads);
  const bool local_sinks = config.Flag("add_swa_attention_sink_bias", true);
  const bool full_sinks = config.Flag("add_full_attention_sink_bias");
  for (LayerSpec& layer : spec.layers) {
    const bool slides = layer.window > 0;
    layer.num_kv_heads = slides ? local_heads : kv_heads;
    layer.sinks = slides ? local_sinks : full_sinks;
    layer.rope = slides ? 1 : 0;
  }
  spec.attention_sinks = true;
}

/// Reads the ropes of both kinds of layers, which rotate equally many dimensions.
void ReadMimoRopes(const HfConfig& config, ModelSpec& spec) {
  const int64_t head_dim = spec.layers[0].head_dim;
  if (const auto ropes = RopesOfKindsFromHf(config, head_dim, kMimoTheta, kMimoLocalTheta, kMimoPart)) {
    spec.ropes = {ropes->full, ropes->sliding};
    return;
  }
  spec.ropes.push_back(spec.ropes[0]);
  spec.ropes[1].theta = config.Real("swa_rope_theta", kMimoLocalTheta);
}

Mixture MimoMixtureFromHf(const HfConfig& config) {
  if (config.Count("n_shared_experts", 0) != 0) Fail("{}: n_shared_experts is not supported", config.path());
  Mixture mixture = CorrectedMixtureFromHf(config, true);
  mixture.shared_intermediate_size = 0;
  return mixture;
}

ModelSpec MimoV2FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = kMimoTheta, .partial = kMimoPart, .by_kind = true});
  spec.norm_epsilon = config.Real("rms_norm_eps", config.Real("layernorm_epsilon", 1e-5));
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 192));
  spec.SetAll(&LayerSpec::value_dim, config.Count("v_head_dim", 128));
  spec.qkv_bias = config.Flag("attention_bias");
  config.Has("attention_chunk_size");  // published files have it, and no code reads it
  RequireEqualHeads(config);
  ReadLayers(config, spec);
  ReadMimoRopes(config, spec);
  spec.scales.attention_out = config.RealOrNull("attention_value_scale", kMimoValueScale);
  if (spec.scales.attention_out == 0) spec.scales.attention_out = 1;  // null
  const std::vector<double> sparse = config.RealsOfLayers("moe_layer_freq", spec.layers.size());
  SetMixtureWhereListed(config, 1, spec, MimoMixtureFromHf(config));
  if (!sparse.empty() && !config.Has("mlp_layer_types")) {
    for (size_t i = 0; i < sparse.size(); ++i) spec.layers[i].mixture = sparse[i] != 0;
  }
  return spec;
}

/// Reads a GGUF file. Its window counts the tokens before the query.
ModelSpec MimoV2FromGguf(const GgufConfig& config) {
  if (!config.Has("attention.value_scale"))
    Fail("{}: files without attention.value_scale are not supported: convert the model with a newer llama.cpp",
         config.path());
  ModelSpec spec = LlamaFromGguf(config);
  spec.SetAll(&LayerSpec::value_dim, config.Count("attention.value_length"));
  spec.scales.attention_out = config.Real("attention.value_scale");
  spec.ropes.push_back(spec.ropes[0]);
  spec.ropes[1].theta = config.Real("rope.freq_base_swa", kMimoLocalTheta);
  KeepWindows(config, spec, kMimoFullEvery);
  DropFurtherLayers(config, spec);
  const Mixture mixture = CorrectedMixtureFromGguf(config);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.rope = layer.window > 0 ? 1 : 0;
    if (layer.window > 0) ++layer.window;
    layer.sinks = Has(config, Role::kSinks, static_cast<int64_t>(i));
    layer.mixture = Has(config, Role::kRouter, static_cast<int64_t>(i));
  }
  spec.attention_sinks = true;
  if (spec.num_mixture_layers() > 0) spec.mixture = mixture;
  return spec;
}

/// Returns the weights. HF's own files, which have the experts of a layer in one tensor, name sinks as gpt-oss does.
std::vector<WeightSpec> MimoV2Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  WeightOf(weights, Role::kValue).rows = Axis::kValues;
  WeightOf(weights, Role::kAttentionOut).cols = Axis::kAttended;
  if (spec.qkv_bias) {
    AddQkvBiases(weights, true);
    WeightOf(weights, Role::kValueBias).rows = Axis::kValues;
  }
  const char* sinks =
      spec.mixture.file_rows == GateUpRows::kInOrder ? kSinksName : "model.layers.{}.self_attn.attention_sink_bias";
  weights.insert(weights.begin() + 1, {Role::kSinks, sinks, Axis::kHeads, Axis::kOne});
  AddMixtureWeights(spec, kCorrectedMixtureNames, weights);
  return weights;
}

constexpr const char* kUnusedOfMimo[] = {"model.mtp."};

}  // namespace

constexpr Architecture kMimoV2 = {.hf = "mimo_v2_flash",
                                  .gguf = "mimo2",
                                  .from_hf = MimoV2FromHf,
                                  .from_gguf = MimoV2FromGguf,
                                  .weights = MimoV2Weights,
                                  .prediction = PredictionForm::kUnused,
                                  .hf_unused = kUnusedOfMimo};

}  // namespace quire::architectures
