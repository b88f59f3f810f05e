// Qwen3-Next and the text models of Qwen3.5 have the gated delta rule in most layers, and attention with a gated output
// in the others. The models have MLPs, or mixtures of experts with a shared expert.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// Reads layer_types. Without that list, every full_attention_interval-th layer is attention.
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
  mixture.shared_gate = mixture.shared_intermediate_size > 0;
  mixture.renormalize = renormalize;
  SetMixtureWhereSparse(config, spec, mixture);
}

ModelSpec Qwen3NextFromHf(const HfConfig& config) {
  ModelSpec spec = HybridFromHf(config);
  spec.recurrence.gates_by_key_head = spec.recurrence.betas_by_key_head = true;
  ReadMixture(config, config.Flag("norm_topk_prob", true), spec);
  return spec;
}

ModelSpec Qwen35MoeFromHf(const HfConfig& config) {
  ModelSpec spec = HybridFromHf(config);
  ReadMixture(config, true, spec);
  return spec;
}

/// Reads a GGUF file. The norm weights in GGUF files are the factors themselves: 1 is already added to the weights of
/// HF's files. Every full_attention_interval-th layer is attention.
ModelSpec HybridFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  DropFurtherLayers(config, spec);
  config.Has("rope.dimension_sections");  // accepted and ignored: for text, all sections agree
  spec.qk_norm = QkNorm::kHeads;
  spec.attention_gate = true;
  const int64_t interval = config.Count("full_attention_interval", 4);
  if (interval < 1) Fail("{}: full_attention_interval = {} is out of range", config.path(), interval);
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    if ((i + 1) % interval != 0) spec.layers[static_cast<size_t>(i)].mixer = Mixer::kGatedDelta;
  }
  if (spec.num_state_layers() > 0) spec.recurrence = StateHeadsFromGguf(config, config.Count("ssm.group_count"));
  return spec;
}

ModelSpec WithMixture(const GgufConfig& config, ModelSpec spec) {
  Mixture mixture = MixtureFromGguf(config);
  mixture.shared_intermediate_size = config.Count("expert_shared_feed_forward_length");
  mixture.shared_gate = mixture.shared_intermediate_size > 0;
  mixture.renormalize = true;
  spec.mixture = mixture;
  for (int64_t i = 0; i < spec.num_layers(); ++i)
    spec.layers[static_cast<size_t>(i)].mixture = !Has(config, Role::kUp, i);
  return spec;
}

/// Reads a Qwen3-Next GGUF file. Older files have HF's layout of the projections.
ModelSpec Qwen3NextFromGguf(const GgufConfig& config) {
  ModelSpec spec = HybridFromGguf(config);
  spec.recurrence.gates_by_key_head = Has(config, kGgufStateIn);
  spec.recurrence.betas_by_key_head = true;
  return WithMixture(config, spec);
}

ModelSpec Qwen35FromGguf(const GgufConfig& config) {
  ModelSpec spec = HybridFromGguf(config);
  spec.recurrence.values_tiled = true;
  return spec;
}

ModelSpec Qwen35MoeFromGguf(const GgufConfig& config) { return WithMixture(config, Qwen35FromGguf(config)); }

/// Returns the input projections of the gated delta rule. Recurrence describes how files differ.
std::vector<WeightSpec> Projections(const Recurrence& recurrence) {
  using enum Axis;
  const bool gates = recurrence.gates_by_key_head, betas = recurrence.betas_by_key_head;
  const char* qkv =
      gates ? "model.layers.{}.linear_attn.in_proj_qkvz.weight" : "model.layers.{}.linear_attn.in_proj_qkv.weight";
  const char* z = gates ? qkv : "model.layers.{}.linear_attn.in_proj_z.weight";
  const char* b =
      betas ? "model.layers.{}.linear_attn.in_proj_ba.weight" : "model.layers.{}.linear_attn.in_proj_b.weight";
  const char* a = betas ? b : "model.layers.{}.linear_attn.in_proj_a.weight";
  const char* in = gates ? kGgufStateIn : nullptr;
  const char* ba = betas ? "blk.{}.ssm_ba.weight" : nullptr;
  const auto weight = [](Role role, const char* hf, Axis rows, Fusion fusion, const char* gguf) {
    return WeightSpec{role, hf, rows, kHidden, false, fusion, false, gguf};
  };
  const Fusion fused = gates ? Fusion::kByKeyHead : Fusion::kInOrder;
  const auto apart = [](bool by_key_head) { return by_key_head ? Fusion::kByKeyHead : Fusion::kNone; };
  return {weight(Role::kStateQuery, qkv, kStateKeys, fused, in),
          weight(Role::kStateKey, qkv, kStateKeys, fused, in),
          weight(Role::kStateValue, qkv, kStateValues, fused, in),
          weight(Role::kStateGate, z, kStateValues, apart(gates), in),
          weight(Role::kStateBeta, b, kStateHeads, apart(betas), ba),
          weight(Role::kStateDecay, a, kStateHeads, apart(betas), ba)};
}

std::vector<WeightSpec> HybridWeights(const ModelSpec& spec) {
  using enum Axis;
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  WeightOf(weights, Role::kMlpNorm).gguf = GgufName(Role::kAttentionAfterNorm);
  AddQueryKeyNorms(weights, kHeadDim, kHeadDim);
  const auto query = std::ranges::find(weights, Role::kQuery, &WeightSpec::role);
  query->fusion = Fusion::kByHead;
  WeightSpec gate = *query;
  gate.role = Role::kAttentionGate;
  gate.gguf = GgufName(Role::kQuery);
  gate.rotates = false;
  weights.insert(query + 1, gate);
  const char* taps = "model.layers.{}.linear_attn.conv1d.weight";
  const auto weight = [](Role role, const char* name, Axis rows, Axis cols, Fusion fusion = Fusion::kNone) {
    return WeightSpec{role, name, rows, cols, false, fusion};
  };
  const WeightSpec delta[] = {
      weight(Role::kStateQueryTaps, taps, kStateKeys, kTaps, Fusion::kInOrder),
      weight(Role::kStateKeyTaps, taps, kStateKeys, kTaps, Fusion::kInOrder),
      weight(Role::kStateValueTaps, taps, kStateValues, kTaps, Fusion::kInOrder),
      weight(Role::kStateRate, "model.layers.{}.linear_attn.A_log", kStateHeads, kOne),
      weight(Role::kStateDecayBias, "model.layers.{}.linear_attn.dt_bias", kStateHeads, kOne),
      weight(Role::kStateNorm, "model.layers.{}.linear_attn.norm.weight", kStateHeadDim, kOne),
      weight(Role::kStateOut, "model.layers.{}.linear_attn.out_proj.weight", kHidden, kStateValues)};
  weights.insert(weights.begin() + 1, std::begin(delta), std::end(delta));
  const std::vector<WeightSpec> projections = Projections(spec.recurrence);
  weights.insert(weights.begin() + 1, projections.begin(), projections.end());
  AddMixtureWeights(spec, kQwenMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kQwen3Next = {.hf = "qwen3_next",
                                     .gguf = "qwen3next",
                                     .from_hf = Qwen3NextFromHf,
                                     .from_gguf = Qwen3NextFromGguf,
                                     .weights = HybridWeights,
                                     .prediction = PredictionForm::kLikeQwen};
constexpr Architecture kQwen35Text = {.hf = "qwen3_5_text",
                                      .gguf = "qwen35",
                                      .from_hf = HybridFromHf,
                                      .from_gguf = Qwen35FromGguf,
                                      .weights = HybridWeights,
                                      .prediction = PredictionForm::kLikeQwen};
constexpr Architecture kQwen35MoeText = {.hf = "qwen3_5_moe_text",
                                         .gguf = "qwen35moe",
                                         .from_hf = Qwen35MoeFromHf,
                                         .from_gguf = Qwen35MoeFromGguf,
                                         .weights = HybridWeights,
                                         .prediction = PredictionForm::kLikeQwen};

}  // namespace quire::architectures
