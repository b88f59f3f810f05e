// Llama and Mistral have RMS norms before attention and MLP, rotary positions, grouped-query attention, and a gated
// MLP.
#include "comm/model/architectures/llama.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr WeightSpec kEmbedding = {Role::kEmbedding, "model.embed_tokens.weight", Axis::kTokens, Axis::kHidden};
constexpr const char* kPostAttentionNorm = "model.layers.{}.post_attention_layernorm.weight";

int64_t UsualHeadDim(const ModelSpec& spec) { return spec.num_heads > 0 ? spec.hidden_size / spec.num_heads : 0; }

/// Reads the number of the MLP's columns. LFM2's first files call this number block_ff_dim. Files of families in which
/// all MLPs are mixtures may omit the number; then the number of an expert's columns is returned, and nothing uses it.
int64_t MlpColumns(const HfConfig& config) {
  for (const char* key : {"intermediate_size", "block_ff_dim", "moe_intermediate_size"}) {
    if (config.Has(key)) return config.Count(key);
  }
  return config.Count("intermediate_size");
}

/// Reads the number of the MLP's columns. Files of models in which all MLPs are mixtures may omit this number; then the
/// number of an expert's columns takes its place.
void ReadMlpColumns(const GgufConfig& config, ModelSpec& spec) {
  const bool left_out = !config.Has(kGgufMlpColumns) && config.Has("expert_feed_forward_length");
  ReadCounts(config, left_out ? "expert_feed_forward_length" : kGgufMlpColumns, &LayerSpec::intermediate_size, spec);
}

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

/// Throws Error when config.json's layer_types has another kind than `wanted`. Readers of families whose layers must
/// all be of one kind call this.
void RequireKinds(const HfConfig& config, const ModelSpec& spec, const std::string& wanted) {
  for (const std::string& kind : KindsOfLayers(config, spec)) {
    if (kind == wanted) continue;
    Fail("{}: layer_types: \"{}\" is not supported for this architecture with this sliding_window", config.path(),
         kind.substr(0, 100));
  }
}

/// Reads a GGUF file whose architecture is llama. Mixtral's files use this architecture name, too.
ModelSpec InterleavedFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  if (config.Count("expert_count", 0) > 0) {
    Mixture mixture = MixtureFromGguf(config);
    mixture.renormalize = true;
    SetMixture(spec, mixture);
    spec.architecture = kMixtral.hf;
  }
  return spec;
}

constexpr int64_t kMistralWindow = 4096;

/// Reads a Mistral model, in which every layer has the file's window. Llama's files may have a window, too; LlamaFromHf
/// ignores this window, as HF does.
ModelSpec MistralFromHf(const HfConfig& config, const RopeHabits& habits, int64_t usual_window) {
  ModelSpec spec = LlamaFromHf(config, habits);
  const int64_t window = WindowOf(config, usual_window);
  for (LayerSpec& layer : spec.layers) layer.window = window;
  RequireKinds(config, spec, window > 0 ? kSliding : kFull);
  return spec;
}

ModelSpec PlainMistralFromHf(const HfConfig& config) { return MistralFromHf(config, {}, kMistralWindow); }

/// Reads a Mistral model whose queries are multiplied by a factor that grows with their position (Rope::query_growth).
/// rope_parameters is required, because HF's defaults without it fit no real model.
ModelSpec Ministral3FromHf(const HfConfig& config) {
  config.At("rope_parameters");
  ModelSpec spec = MistralFromHf(config, {.queries_grow = true}, 0);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  return spec;
}

/// Reads the text model of Mistral 3 from a GGUF file. The model is Llama, but queries may grow with their positions.
ModelSpec Mistral3FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  spec.ropes[0].query_growth = config.Real("attention.temperature_scale", 0);
  const double all = config.Real("rope.scaling.yarn_log_multiplier", 0);
  if (all != 0) spec.ropes[0].attention_factor /= YarnAttention(spec.ropes[0].factor, all);
  return spec;
}

ModelSpec PlainLlamaFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  RequireKinds(config, spec, kFull);
  return spec;
}

/// Reads a Mistral model with a window in some layers.
ModelSpec MinistralFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  const int64_t window = WindowOf(config, kMistralWindow);
  ReadKinds(config, spec, window, [&](int64_t) { return window > 0; });
  return spec;
}

}  // namespace

int64_t WindowOf(const HfConfig& config, int64_t otherwise) {
  constexpr const char* kWindow = "sliding_window";
  const bool is_null = !config.Has(kWindow) && config.json().contains(kWindow);
  return is_null ? 0 : config.Count(kWindow, otherwise);
}

std::vector<LayerSpec> LayersOf(int64_t count, const std::string& path) {
  if (count < 1 || count > kMaxLayers) Fail("{}: num_hidden_layers = {} is out of range", path, count);
  return std::vector<LayerSpec>(static_cast<size_t>(count));
}

bool IsSliding(const HfConfig& config, const std::string& kind) {
  if (kind != kSliding && kind != kFull) {
    Fail("{}: layer_types: \"{}\" is not supported", config.path(), kind.substr(0, 100));
  }
  return kind == kSliding;
}

std::vector<std::string> KindsOfLayers(const HfConfig& config, const ModelSpec& spec) {
  std::vector<std::string> kinds = config.Texts("layer_types");
  if (!kinds.empty() && kinds.size() != spec.layers.size()) {
    Fail("{}: layer_types lists {} layers of {}", config.path(), kinds.size(), spec.layers.size());
  }
  return kinds;
}

void ReadKinds(const HfConfig& config, ModelSpec& spec, int64_t window, const std::function<bool(int64_t)>& slides) {
  const std::vector<std::string> kinds = KindsOfLayers(config, spec);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool sliding = kinds.empty() ? slides(static_cast<int64_t>(i)) : IsSliding(config, kinds[i]);
    spec.layers[i].window = sliding ? window : 0;
  }
}

ModelSpec LlamaFromHf(const HfConfig& config, const RopeHabits& habits) {
  ModelSpec spec;
  spec.hidden_size = config.Count("hidden_size");
  spec.layers = LayersOf(config.Count("num_hidden_layers"), config.path());
  spec.num_heads = config.Count("num_attention_heads");
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", spec.num_heads));
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", UsualHeadDim(spec)));
  spec.SetAll(&LayerSpec::intermediate_size, MlpColumns(config));
  spec.vocab_size = config.Count("vocab_size");
  spec.max_position = config.Count("max_position_embeddings");
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-6);
  spec.tied_embeddings = config.Flag("tie_word_embeddings");
  spec.ropes = {RopeFromHf(config, spec.layers[0].head_dim, habits)};
  return spec;
}

ModelSpec LlamaFromGguf(const GgufConfig& config) {
  ModelSpec spec;
  spec.hidden_size = config.Count("embedding_length");
  spec.layers = LayersOf(config.Count("block_count"), config.path());
  spec.num_heads = config.Count("attention.head_count");
  ReadCounts(config, kGgufKvHeads, &LayerSpec::num_kv_heads, spec, spec.num_heads);
  spec.SetAll(&LayerSpec::head_dim, config.Count("attention.key_length", UsualHeadDim(spec)));
  // For files with one of these keys, deepseek.cc or mimo_v2.cc reads the sizes of heads.
  const bool read_elsewhere = config.Has("attention.kv_lora_rank") || config.Has("attention.value_scale");
  if (!read_elsewhere && config.Count("attention.value_length", spec.layers[0].head_dim) != spec.layers[0].head_dim) {
    Fail("{}: values of another length than keys are not supported", config.path());
  }
  ReadMlpColumns(config, spec);
  spec.max_position = config.Count("context_length");
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("attention.sliding_window", 0);
  spec.norm_epsilon = static_cast<float>(config.Real("attention.layer_norm_rms_epsilon"));
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  spec.vocab_size = static_cast<int64_t>(config.file().Get<std::vector<std::string>>("tokenizer.ggml.tokens").size());
  spec.tied_embeddings = !Has(config, Role::kHead);
  return spec;
}

WeightSpec HeadOf(const ModelSpec& spec, const WeightSpec& embedding, const char* name) {
  WeightSpec head = {Role::kHead, name, Axis::kVocab, Axis::kHidden};
  if (spec.tied_embeddings) {
    head.hf = embedding.hf;
    head.gguf = GgufName(embedding.role);
  }
  return head;
}

std::vector<WeightSpec> LlamaWeights(const ModelSpec& spec) {
  const auto in_layer = [](Role role, const char* hf, Axis rows, Axis cols, bool rotates = false) {
    return WeightSpec{role, hf, rows, cols, rotates};
  };
  using enum Axis;
  return {
      kEmbedding,
      in_layer(Role::kAttentionNorm, "model.layers.{}.input_layernorm.weight", kHidden, kOne),
      in_layer(Role::kMlpNorm, kPostAttentionNorm, kHidden, kOne),
      in_layer(Role::kQuery, "model.layers.{}.self_attn.q_proj.weight", kQueries, kHidden, true),
      in_layer(Role::kKey, "model.layers.{}.self_attn.k_proj.weight", kKeyValues, kHidden, true),
      in_layer(Role::kValue, "model.layers.{}.self_attn.v_proj.weight", kKeyValues, kHidden),
      in_layer(Role::kAttentionOut, "model.layers.{}.self_attn.o_proj.weight", kHidden, kQueries),
      in_layer(Role::kGate, "model.layers.{}.mlp.gate_proj.weight", kMlp, kHidden),
      in_layer(Role::kUp, "model.layers.{}.mlp.up_proj.weight", kMlp, kHidden),
      in_layer(Role::kDown, "model.layers.{}.mlp.down_proj.weight", kHidden, kMlp),
      {Role::kFinalNorm, "model.norm.weight", kHidden, kOne},
      HeadOf(spec, kEmbedding),
  };
}

WeightSpec& WeightOf(std::vector<WeightSpec>& weights, Role role) {
  const auto weight = std::ranges::find(weights, role, &WeightSpec::role);
  QUIRE_CHECK(weight != weights.end(), "the list has no weight {}", static_cast<int>(role));
  return *weight;
}

void Rename(std::vector<WeightSpec>& weights, Role role, const char* hf) { WeightOf(weights, role).hf = hf; }

void Fuse(std::vector<WeightSpec>& weights, std::initializer_list<Role> roles, const char* hf, const char* gguf) {
  for (const Role role : roles) {
    WeightSpec& weight = WeightOf(weights, role);
    weight.hf = hf;
    weight.gguf = gguf;
    weight.fusion = Fusion::kInOrder;
  }
}

void FuseGatesAndUps(std::vector<WeightSpec>& weights) {
  Fuse(weights, {Role::kGate, Role::kUp}, "model.layers.{}.mlp.gate_up_proj.weight", GgufName(Role::kUp));
}

void AddQkvBiases(std::vector<WeightSpec>& weights, bool rotate) {
  const WeightSpec biases[] = {
      {Role::kQueryBias, "model.layers.{}.self_attn.q_proj.bias", Axis::kQueries, Axis::kOne, rotate},
      {Role::kKeyBias, "model.layers.{}.self_attn.k_proj.bias", Axis::kKeyValues, Axis::kOne, rotate},
      {Role::kValueBias, "model.layers.{}.self_attn.v_proj.bias", Axis::kKeyValues, Axis::kOne}};
  weights.insert(weights.begin() + 1, std::begin(biases), std::end(biases));
}

void AddNormBiases(std::vector<WeightSpec>& weights, const char* final_norm_bias) {
  const std::pair<Role, WeightSpec> biases[] = {
      {Role::kAttentionNorm,
       {Role::kAttentionNormBias, "model.layers.{}.input_layernorm.bias", Axis::kHidden, Axis::kOne}},
      {Role::kMlpNorm,
       {Role::kMlpNormBias, "model.layers.{}.post_attention_layernorm.bias", Axis::kHidden, Axis::kOne}},
      {Role::kFinalNorm, {Role::kFinalNormBias, final_norm_bias, Axis::kHidden, Axis::kOne}}};
  for (const auto& [norm, bias] : biases) {
    if (std::ranges::find(weights, norm, &WeightSpec::role) != weights.end()) weights.push_back(bias);
  }
}

void AddQueryKeyNorms(std::vector<WeightSpec>& weights, Axis query, Axis key) {
  const WeightSpec norms[] = {{Role::kQueryNorm, "model.layers.{}.self_attn.q_norm.weight", query, Axis::kOne},
                              {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm.weight", key, Axis::kOne}};
  weights.insert(weights.begin() + 1, std::begin(norms), std::end(norms));
}

void AddAttentionOutBias(std::vector<WeightSpec>& weights) {
  weights.insert(weights.begin() + 1,
                 {Role::kAttentionOutBias, "model.layers.{}.self_attn.o_proj.bias", Axis::kHidden, Axis::kOne});
}

void AddHeadBias(std::vector<WeightSpec>& weights) {
  weights.push_back({Role::kHeadBias, "lm_head.bias", Axis::kVocab, Axis::kOne});
}

void AddAttentionGate(std::vector<WeightSpec>& weights, Axis rows, const char* gguf) {
  weights.push_back({.role = Role::kAttentionGate,
                     .hf = "model.layers.{}.self_attn.gate_proj.weight",
                     .rows = rows,
                     .cols = Axis::kHidden,
                     .gguf = gguf});
}

void AddNormsAfter(std::vector<WeightSpec>& weights) {
  const WeightSpec norms[] = {
      {Role::kAttentionAfterNorm, kPostAttentionNorm, Axis::kHidden, Axis::kOne},
      {Role::kMlpAfterNorm, "model.layers.{}.post_feedforward_layernorm.weight", Axis::kHidden, Axis::kOne}};
  weights.insert(weights.begin() + 1, std::begin(norms), std::end(norms));
}

void AddNormsAround(std::vector<WeightSpec>& weights) {
  Rename(weights, Role::kMlpNorm, "model.layers.{}.pre_feedforward_layernorm.weight");
  AddNormsAfter(weights);
}

constexpr Architecture kLlama = {"llama", "llama", PlainLlamaFromHf, InterleavedFromGguf, LlamaWeights};
constexpr Architecture kMistral = {"mistral", nullptr, PlainMistralFromHf, nullptr, LlamaWeights};
constexpr Architecture kMinistral3 = {"ministral3", "mistral3", Ministral3FromHf, Mistral3FromGguf, LlamaWeights};
constexpr Architecture kMinistral = {"ministral", nullptr, MinistralFromHf, nullptr, LlamaWeights};

}  // namespace quire::architectures
