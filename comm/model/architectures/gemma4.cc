// Gemma 4's text models are like Gemma 3, but with heads of two sizes, normalized values, unscaled attention scores,
// and a scale for each layer. In small models each layer gets its own input for each token, and the last layers read
// the keys and values of earlier layers. In large models, layers without a window use their keys as values. Models with
// mixtures of experts also have an MLP in each layer, which serves as the shared expert.
#include <algorithm>
#include <cmath>
#include <string>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

constexpr double kFullTheta = 1000000, kLocalTheta = 10000;
constexpr int64_t kGemma4FullEvery = 6, kFullHeadDim = 512;
constexpr const char* kGgufExpertsIn = "blk.{}.ffn_gate_up_exps.weight";

/// Reads one layer's head settings. Newer HF files have an object with these settings for each layer that differs.
void ReadHeads(const HfConfig& config, LayerSpec& layer) {
  layer.head_dim = config.Count("head_dim", layer.head_dim);
  layer.num_kv_heads = config.Count("num_key_value_heads", layer.num_kv_heads);
  config.RefuseOtherKeys();
}

void ReadHeadsOfLayers(const HfConfig& config, ModelSpec& spec) {
  constexpr const char* kByLayer = "per_layer_config";
  if (config.Has(kByLayer)) {
    const std::string path = config.path() + ": " + kByLayer;
    const HfConfig by_layer(config.At(kByLayer), path);
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      const std::string number = std::to_string(i);
      if (!by_layer.Has(number.c_str())) continue;
      ReadHeads(HfConfig(by_layer.At(number.c_str()), path + ": " + number), spec.layers[i]);
    }
    return by_layer.RefuseOtherKeys();
  }
  const int64_t head_dim = config.Count("global_head_dim", kFullHeadDim);
  for (LayerSpec& layer : spec.layers) {
    if (layer.window > 0) continue;
    layer.head_dim = head_dim;
    if (layer.values_are_keys) layer.num_kv_heads = config.Count("num_global_key_value_heads", layer.num_kv_heads);
  }
}

/// Makes the last `sharing` layers read the keys and values of the last earlier layer with the same window. Throws
/// Error if there is no such layer, if its heads differ, or if `sharing` is out of range.
void ShareKeysAndValues(int64_t sharing, const char* key, const std::string& path, ModelSpec& spec) {
  const int64_t first = spec.num_layers() - sharing;
  if (sharing < 0 || first < 1) Fail("{}: {} = {} of {} layers", path, key, sharing, spec.num_layers());
  for (int64_t i = first; i < spec.num_layers(); ++i) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    layer.values_are_keys = false;  // the layer has no values of its own
    for (int64_t from = first - 1; from >= 0 && layer.kv_from_layer < 0; --from) {
      const LayerSpec& owner = spec.layers[static_cast<size_t>(from)];
      if (owner.window != layer.window) continue;
      if (owner.head_dim != layer.head_dim || owner.num_kv_heads != layer.num_kv_heads)
        Fail("{}: layer {} has other heads than layer {}, whose keys it reads", path, i, from);
      layer.kv_from_layer = from;
    }
    if (layer.kv_from_layer < 0) {
      Fail("{}: layer {} reads keys of an earlier layer of its kind, and {} = {} leaves none", path, i, key, sharing);
    }
  }
}

void ShareKeysAndValues(const HfConfig& config, ModelSpec& spec) {
  constexpr const char* kSharing = "num_kv_shared_layers";
  ShareKeysAndValues(config.Count(kSharing, 0), kSharing, config.path(), spec);
  if (!config.Flag("use_double_wide_mlp")) return;
  for (LayerSpec& layer : spec.layers) layer.intermediate_size *= layer.has_kv() ? 1 : 2;
}

/// Adds experts beside the MLP of every layer. The weights of the chosen experts are divided by their sum. Throws Error
/// if the MLPs of the layers have several sizes.
void SetExperts(ModelSpec& spec, Mixture mixture, const std::string& path) {
  mixture.shared_intermediate_size = spec.layers[0].intermediate_size;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.intermediate_size == mixture.shared_intermediate_size) continue;
    Fail("{}: experts beside MLPs of several sizes, {} and {}, are not supported", path,
         mixture.shared_intermediate_size, layer.intermediate_size);
  }
  mixture.renormalize = true;
  mixture.expert_scales = true;
  mixture.normed_apart = true;
  SetMixture(spec, mixture);
}

void ReadExperts(const HfConfig& config, ModelSpec& spec) {
  config.Has("num_experts");  // accepted in files without mixtures, too
  if (!config.Flag("enable_moe_block")) return;
  SetExperts(spec,
             {.experts = config.Count("num_experts"),
              .experts_per_token = config.Count("top_k_experts"),
              .intermediate_size = config.Count("moe_intermediate_size"),
              .file_rows = GateUpRows::kInOrder},
             config.path());
}

void ReadRopes(const HfConfig& config, ModelSpec& spec) {
  spec.ropes = {Rope{.theta = kFullTheta}, Rope{.theta = kLocalTheta}};
  for (LayerSpec& layer : spec.layers) layer.rope = layer.window > 0 ? 1 : 0;
  const int64_t full_dim = RotatedDims(spec, 0), local_dim = RotatedDims(spec, 1);
  spec.ropes[0].turning_pairs = full_dim / 8;  // a quarter of the pairs
  if (!config.Has("rope_parameters")) return;
  const std::string path = config.path() + ": rope_parameters";
  const HfConfig kinds(config.At("rope_parameters"), path);
  const auto read = [&](const char* kind, int64_t head_dim, Rope& rope) {
    if (!kinds.Has(kind)) Fail("{}: {} is missing", path, kind);
    const HfConfig said(kinds.At(kind), path + ": " + kind);
    rope = RopeFromHf(config, said, head_dim, {.theta = rope.theta, .proportional = true});
  };
  if (full_dim > 0) read("full_attention", full_dim, spec.ropes[0]);
  if (local_dim > 0) read("sliding_attention", local_dim, spec.ropes[1]);
}

/// Sets all settings that Gemma 4's files leave out.
void MakeGemma4(ModelSpec& spec) {
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  spec.activation = Activation::kGeluTanh;
  spec.attention_scale = 1;
  spec.norms_after = true;
  spec.qk_norm = QkNorm::kHeads;
  spec.value_norm = true;
  spec.layer_scales = true;
}

ModelSpec Gemma4FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.by_kind = true});
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 256));
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 4));
  spec.tied_embeddings = config.Flag("tie_word_embeddings", true);
  const std::string activation = config.Text("hidden_activation", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh") {
    Fail("{}: hidden_activation \"{}\" is not supported", config.path(), activation.substr(0, 100));
  }
  // For text tokens "vision" makes no difference.
  const std::string both_ways = config.Text("use_bidirectional_attention", "vision");
  if (both_ways != "vision") {
    Fail("{}: use_bidirectional_attention \"{}\" is not supported", config.path(), both_ways.substr(0, 100));
  }
  const int64_t window = config.Count("sliding_window", 512);
  if (window < 1) Fail("{}: sliding_window = {} is out of range", config.path(), window);
  ReadKinds(config, spec, window, [](int64_t layer) { return (layer + 1) % kGemma4FullEvery != 0; });
  spec.layers.back().window = 0;  // the last layer sees the whole context, whatever layer_types says
  const bool values_are_keys = config.Flag("attention_k_eq_v");
  for (LayerSpec& layer : spec.layers) layer.values_are_keys = values_are_keys && layer.window == 0;
  ReadHeadsOfLayers(config, spec);
  ShareKeysAndValues(config, spec);
  ReadExperts(config, spec);
  ReadRopes(config, spec);
  MakeGemma4(spec);
  spec.logit_cap = config.Real("final_logit_softcapping", 0);
  spec.layer_input_size = config.Count("hidden_size_per_layer_input", 256);
  const int64_t tokens = config.Count("vocab_size_per_layer_input", spec.vocab_size);
  if (spec.layer_input_size != 0 && tokens != spec.vocab_size) {
    Fail("{}: vocab_size_per_layer_input = {} and vocab_size = {} is not supported", config.path(), tokens,
         spec.vocab_size);
  }
  return spec;
}

/// Returns the tokens that end an answer. GGUF files of Gemma 4 name only one of them.
std::vector<TokenId> EndTokens(const GgufConfig& config) {
  const auto& tokens = config.file().Get<std::vector<std::string>>("tokenizer.ggml.tokens");
  std::vector<TokenId> ends;
  for (const char* text : {"<eos>", "<turn|>", "<|tool_response>"}) {
    const auto found = std::ranges::find(tokens, text);
    if (found != tokens.end()) ends.push_back(static_cast<TokenId>(found - tokens.begin()));
  }
  return ends;
}

/// Reads the number of dimension pairs that rotate. GGUF files of Gemma 4 disable the other pairs by dividing their
/// frequencies by 1e30.
void ReadTurningPairs(const std::string& path, Rope& rope) {
  constexpr float kStill = 1e20f;
  if (rope.divisors.empty()) Fail("{}: {} is missing", path, kRopeDivisors);
  const auto is_still = [](float divisor) { return divisor >= kStill; };
  const auto still = std::ranges::find_if(rope.divisors, is_still);
  if (!std::all_of(still, rope.divisors.end(), is_still)) {
    Fail("{}: {} lets pairs of dimensions turn behind others that keep still, which is not supported", path,
         kRopeDivisors);
  }
  rope.turning_pairs = still - rope.divisors.begin();
  std::fill(still, rope.divisors.end(), 1.0f);
}

/// Reads a GGUF file. Layers with a window have the head sizes that the keys with the suffix _swa give; other layers
/// have those of the keys without the suffix. A layer that uses its keys as values has no tensor of values.
ModelSpec Gemma4FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  KeepWindows(config, spec, kGemma4FullEvery);
  const int64_t local = config.Count("attention.key_length_swa", spec.layers[0].head_dim);
  if (config.Count("attention.value_length_swa", local) != local)
    Fail("{}: values of another length than keys are not supported", config.path());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    if (layer.window > 0) layer.head_dim = local;
    layer.rope = layer.window > 0 ? 1 : 0;
    layer.values_are_keys = !Has(config, Role::kValue, static_cast<int64_t>(i));
  }
  constexpr const char* kSharing = "attention.shared_kv_layers";
  ShareKeysAndValues(config.Count(kSharing, 0), kSharing, config.path(), spec);
  ReadTurningPairs(config.path(), spec.ropes[0]);
  const int64_t rotated = config.Count("rope.dimension_count_swa", local);
  spec.ropes.push_back(
      {.theta = config.Real("rope.freq_base_swa", kLocalTheta), .rotated_dims = rotated == local ? 0 : rotated});
  if (config.Count("expert_count", 0) > 0 && Has(config, Role::kRouter)) {
    Mixture mixture = MixtureFromGguf(config);
    if (Has(config, kGgufExpertsIn)) mixture.file_rows = GateUpRows::kInOrder;
    SetExperts(spec, mixture, config.path());
  }
  MakeGemma4(spec);
  spec.logit_cap = config.Real("final_logit_softcapping", 0);
  spec.layer_input_size = config.Count("embedding_length_per_layer_input", 0);
  spec.eos_token_ids = EndTokens(config);
  return spec;
}

/// Adds the experts' weights. HF files have the experts stacked; a GGUF file may have gates and ups in separate
/// tensors.
void AddExperts(const ModelSpec& spec, std::vector<WeightSpec>& weights) {
  MixtureNames names = {.router = "model.layers.{}.router.proj.weight",
                        .gate = "model.layers.{}.experts.gate_up_proj",
                        .up = nullptr,
                        .down = "model.layers.{}.experts.down_proj",
                        .expert_scale = "model.layers.{}.router.per_expert_scale",
                        .router_norm = "model.layers.{}.router.scale",
                        .experts_norm = "model.layers.{}.pre_feedforward_layernorm_2.weight",
                        .experts_after_norm = "model.layers.{}.post_feedforward_layernorm_2.weight",
                        .shared_after_norm = "model.layers.{}.post_feedforward_layernorm_1.weight"};
  names.up = names.gate;
  names.shared_gate = WeightOf(weights, Role::kGate).hf;
  names.shared_up = WeightOf(weights, Role::kUp).hf;
  names.shared_down = WeightOf(weights, Role::kDown).hf;
  AddMixtureWeights(spec, names, weights);
  WeightOf(weights, Role::kSharedGate).gguf = GgufName(Role::kGate);
  WeightOf(weights, Role::kSharedUp).gguf = GgufName(Role::kUp);
  WeightOf(weights, Role::kSharedDown).gguf = GgufName(Role::kDown);
  if (spec.mixture.file_rows != GateUpRows::kInOrder) return;
  for (const Role role : {Role::kExpertGate, Role::kExpertUp}) WeightOf(weights, role).gguf = kGgufExpertsIn;
}

std::vector<WeightSpec> Gemma4Weights(const ModelSpec& spec) {
  using enum Axis;
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddNormsAround(weights);
  AddQueryKeyNorms(weights, kHeadDim, kHeadDim);
  if (spec.num_mixture_layers() > 0) AddExperts(spec, weights);
  const WeightSpec of_layers[] = {
      {Role::kLayerInputGate, "model.layers.{}.per_layer_input_gate.weight", kLayerInput, kHidden},
      {Role::kLayerInputOut, "model.layers.{}.per_layer_projection.weight", kHidden, kLayerInput},
      {Role::kLayerInputNorm, "model.layers.{}.post_per_layer_input_norm.weight", kHidden, kOne},
  };
  const WeightSpec of_model[] = {
      {Role::kLayerEmbedding, "model.embed_tokens_per_layer.weight", kTokens, kLayerInputs},
      {Role::kLayerProjection, "model.per_layer_model_projection.weight", kLayerInputs, kHidden},
      {Role::kLayerProjectionNorm, "model.per_layer_projection_norm.weight", kLayerInput, kOne},
  };
  if (spec.layer_input_size > 0) {
    weights.insert(weights.begin() + 1, std::begin(of_layers), std::end(of_layers));
    weights.insert(weights.begin(), std::begin(of_model), std::end(of_model));
  }
  const auto layers = std::ranges::find_if(weights, [](const WeightSpec& w) { return IsOfLayer(w.role); });
  weights.insert(layers, {Role::kLayerScale, "model.layers.{}.layer_scalar", kOne, kOne});
  return weights;
}

}  // namespace

constexpr Architecture kGemma4 = {"gemma4_text", "gemma4", Gemma4FromHf, Gemma4FromGguf, Gemma4Weights};

}  // namespace quire::architectures
