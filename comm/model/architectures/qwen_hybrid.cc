// Qwen3-Next and the text models of Qwen3.5: the gated delta rule in most layers, attention with a gate of what it
// gives in the others; MLPs, or mixtures with a shared expert.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// What layer_types says or, without it, attention in each full_attention_interval-th layer.
void ReadMixers(const HfConfig& config, ModelSpec& spec) {
  const int64_t interval = config.Count("full_attention_interval", 4);
  const std::vector<std::string> kinds = KindsOfLayers(config, spec);
  if (interval < 1) Fail("{}: full_attention_interval = {} is out of range", config.path(), interval);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool attends = kinds.empty() ? static_cast<int64_t>(i + 1) % interval == 0 : kinds[i] == "full_attention";
    if (!kinds.empty() && !attends && kinds[i] != "linear_attention") {
      Fail("{}: layer_types: \"{}\" is not supported", config.path(), kinds[i].substr(0, 100));
    }
    spec.layers[i].mixer = attends ? Mixer::kAttention : Mixer::kGatedDelta;
  }
}

ModelSpec HybridFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.partial = 0.25, .sections_agree = true});
  spec.qk_norm = QkNorm::kHeads;
  spec.norms_add_one = true;
  spec.attention_gate = true;
  ReadMixers(config, spec);
  if (spec.num_state_layers() == 0) return spec;
  spec.recurrence = {.taps = config.Count("linear_conv_kernel_dim", 4),
                     .key_heads = config.Count("linear_num_key_heads", 16),
                     .value_heads = config.Count("linear_num_value_heads", 32),
                     .key_dim = config.Count("linear_key_head_dim", 128),
                     .value_dim = config.Count("linear_value_head_dim", 128)};
  return spec;
}

void ReadMixture(const HfConfig& config, bool renormalize, ModelSpec& spec) {
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.shared_intermediate_size = config.Count("shared_expert_intermediate_size");
  mixture.shared_gate = true;
  mixture.renormalize = renormalize;
  SetMixtureWhereSparse(config, spec, mixture);
}

ModelSpec Qwen3NextFromHf(const HfConfig& config) {
  ModelSpec spec = HybridFromHf(config);
  ReadMixture(config, config.Flag("norm_topk_prob", true), spec);
  return spec;
}

ModelSpec Qwen35MoeFromHf(const HfConfig& config) {
  ModelSpec spec = HybridFromHf(config);
  ReadMixture(config, true, spec);
  return spec;
}

/// The text model of one that sees, whose own configuration says all that counts for texts.
ModelSpec TextFromHf(const HfConfig& config, ModelSpec (*from_hf)(const HfConfig&)) {
  const HfConfig text(config.At("text_config"), config.path() + ": text_config");
  ModelSpec spec = from_hf(text);
  text.RefuseWhatNobodyRead();
  spec.eos_token_ids = text.TokenIds("eos_token_id");
  if (config.Has("tie_word_embeddings") && config.Flag("tie_word_embeddings") != spec.tied_embeddings)
    Fail("{}: tie_word_embeddings is not what it is in text_config", config.path());
  return spec;
}

ModelSpec Qwen35OfBothFromHf(const HfConfig& config) { return TextFromHf(config, HybridFromHf); }
ModelSpec Qwen35MoeOfBothFromHf(const HfConfig& config) { return TextFromHf(config, Qwen35MoeFromHf); }

/// How files have the projections of the gated delta rule: queries, keys, values and gates in one tensor, and betas
/// and decays in another, key head by key head; or apart, but for queries, keys and values.
enum class Projections { kByKeyHead, kApart };

std::vector<WeightSpec> HybridWeights(const ModelSpec& spec, Projections projections) {
  using enum Axis;
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, kHeadDim, kHeadDim);
  const auto query = std::ranges::find(weights, Role::kQuery, &WeightSpec::role);
  query->fusion = Fusion::kByHead;
  WeightSpec gate = *query;
  gate.role = Role::kAttentionGate;
  gate.rotates = false;
  weights.insert(query + 1, gate);
  const bool by_head = projections == Projections::kByKeyHead;
  const char* qkv =
      by_head ? "model.layers.{}.linear_attn.in_proj_qkvz.weight" : "model.layers.{}.linear_attn.in_proj_qkv.weight";
  const char* z = by_head ? qkv : "model.layers.{}.linear_attn.in_proj_z.weight";
  const char* b =
      by_head ? "model.layers.{}.linear_attn.in_proj_ba.weight" : "model.layers.{}.linear_attn.in_proj_b.weight";
  const char* a = by_head ? b : "model.layers.{}.linear_attn.in_proj_a.weight";
  const char* taps = "model.layers.{}.linear_attn.conv1d.weight";
  const Fusion fused = by_head ? Fusion::kByKeyHead : Fusion::kInOrder;
  const Fusion apart = by_head ? Fusion::kByKeyHead : Fusion::kNone;
  const auto weight = [](Role role, const char* name, Axis rows, Axis cols, Fusion fusion = Fusion::kNone) {
    return WeightSpec{role, name, rows, cols, false, fusion};
  };
  const WeightSpec delta[] = {
      weight(Role::kStateQuery, qkv, kStateKeys, kHidden, fused),
      weight(Role::kStateKey, qkv, kStateKeys, kHidden, fused),
      weight(Role::kStateValue, qkv, kStateValues, kHidden, fused),
      weight(Role::kStateGate, z, kStateValues, kHidden, apart),
      weight(Role::kStateBeta, b, kStateHeads, kHidden, apart),
      weight(Role::kStateDecay, a, kStateHeads, kHidden, apart),
      weight(Role::kStateQueryTaps, taps, kStateKeys, kTaps, Fusion::kInOrder),
      weight(Role::kStateKeyTaps, taps, kStateKeys, kTaps, Fusion::kInOrder),
      weight(Role::kStateValueTaps, taps, kStateValues, kTaps, Fusion::kInOrder),
      weight(Role::kStateRate, "model.layers.{}.linear_attn.A_log", kStateHeads, kOne),
      weight(Role::kStateDecayBias, "model.layers.{}.linear_attn.dt_bias", kStateHeads, kOne),
      weight(Role::kStateNorm, "model.layers.{}.linear_attn.norm.weight", kStateHeadDim, kOne),
      weight(Role::kStateOut, "model.layers.{}.linear_attn.out_proj.weight", kHidden, kStateValues)};
  weights.insert(weights.begin() + 1, std::begin(delta), std::end(delta));
  AddMixtureWeights(spec, kQwenMixtureNames, weights);
  return weights;
}

std::vector<WeightSpec> Qwen3NextWeights(const ModelSpec& spec) { return HybridWeights(spec, Projections::kByKeyHead); }
std::vector<WeightSpec> Qwen35Weights(const ModelSpec& spec) { return HybridWeights(spec, Projections::kApart); }

}  // namespace

constexpr Architecture kQwen3Next = {.hf = "qwen3_next",
                                     .gguf = nullptr,
                                     .from_hf = Qwen3NextFromHf,
                                     .from_gguf = nullptr,
                                     .weights = Qwen3NextWeights,
                                     .predicts_further = true};
constexpr const char* kText = "model.language_model.";
constexpr Architecture kQwen35 = {.hf = "qwen3_5",
                                  .gguf = nullptr,
                                  .from_hf = Qwen35OfBothFromHf,
                                  .from_gguf = nullptr,
                                  .weights = Qwen35Weights,
                                  .hf_text = kText,
                                  .predicts_further = true};
constexpr Architecture kQwen35Moe = {.hf = "qwen3_5_moe",
                                     .gguf = nullptr,
                                     .from_hf = Qwen35MoeOfBothFromHf,
                                     .from_gguf = nullptr,
                                     .weights = Qwen35Weights,
                                     .hf_text = kText,
                                     .predicts_further = true};
constexpr Architecture kQwen35Text = {.hf = "qwen3_5_text",
                                      .gguf = nullptr,
                                      .from_hf = HybridFromHf,
                                      .from_gguf = nullptr,
                                      .weights = Qwen35Weights,
                                      .predicts_further = true};
constexpr Architecture kQwen35MoeText = {.hf = "qwen3_5_moe_text",
                                         .gguf = nullptr,
                                         .from_hf = Qwen35MoeFromHf,
                                         .from_gguf = nullptr,
                                         .weights = Qwen35Weights,
                                         .predicts_further = true};

}  // namespace quire::architectures
