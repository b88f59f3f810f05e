// Each layer of Nemotron-H and Nemotron 3 is of one of four kinds: a Mamba-2 state space, attention without positions,
// an MLP with squared ReLU, or a mixture of such MLPs.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mamba.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// Returns the kind of each layer. Newer files have words, older files have letters.
std::vector<std::string> KindsFromHf(const HfConfig& config) {
  std::vector<std::string> kinds = config.Texts("layers_block_type");
  if (!kinds.empty()) return kinds;
  for (const char letter : config.Text("hybrid_override_pattern", ""))
    kinds.push_back(letter == 'M'   ? "mamba"
                    : letter == '*' ? "attention"
                    : letter == '-' ? "mlp"
                    : letter == 'E' ? "moe"
                                    : std::string(1, letter));
  return kinds;
}

/// Throws Error for a lower bound of time steps above the usual bound, because HF applies the bound to prompts only.
/// Also throws Error for an activation other than SiLU, and for other spellings of keys, which HF accepts and no known
/// file has.
void RefuseOtherSteps(const HfConfig& config) {
  constexpr double kUsualLeast = 0.001;
  if (config.Real("time_step_min", kUsualLeast) > kUsualLeast)
    Fail("{}: time_step_min above {} is not supported", config.path(), kUsualLeast);
  if (const std::string name = config.Text("mamba_hidden_act", "silu"); name != "silu")
    Fail("{}: mamba_hidden_act = \"{}\" is not supported", config.path(), name.substr(0, 100));
  for (const char* key : {"mamba_d_conv", "mamba_n_groups", "mamba_conv_bias", "mamba_dt_min", "mamba_dt_limit"}) {
    if (config.Has(key)) Fail("{}: {} is not supported for this architecture", config.path(), key);
  }
}

constexpr StateSpaceKeys kKeys = {.taps = "conv_kernel",
                                  .groups = "n_groups",
                                  .heads = "mamba_num_heads",
                                  .state_size = "ssm_state_size",
                                  .head_size = "mamba_head_dim",
                                  .taps_bias = "use_conv_bias"};

constexpr const char* kLatent = "mixtures of experts in a space of their own (moe_latent_size) are not supported";

/// Reads the mixture. The shared expert exists, whatever n_shared_experts says.
Mixture NemotronMixtureFromHf(const HfConfig& config) {
  if (config.Has("moe_latent_size")) Fail("{}: {}", config.path(), kLatent);
  Mixture mixture = CorrectedMixtureFromHf(config, true);
  mixture.shared_intermediate_size = config.Count("moe_shared_expert_intermediate_size");
  return mixture;
}

ModelSpec NemotronHFromHf(const HfConfig& config) {
  const std::vector<std::string> kinds = KindsFromHf(config);
  ModelSpec spec;
  spec.hidden_size = config.Count("hidden_size");
  spec.layers = LayersOf(static_cast<int64_t>(kinds.size()), config.path());
  spec.num_heads = config.Count("num_attention_heads");
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", spec.num_heads));
  const char* head_dim = config.Has("head_dim") ? "head_dim" : "attention_head_dim";
  spec.SetAll(&LayerSpec::head_dim, config.Count(head_dim, 128));
  spec.SetAll(&LayerSpec::rope, -1);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.vocab_size = config.Count("vocab_size");
  spec.max_position = config.Count("max_position_embeddings");
  spec.norm_epsilon = config.Real("layer_norm_epsilon", 1e-5);
  spec.tied_embeddings = config.Flag("tie_word_embeddings");
  spec.gated_mlp = false;
  spec.activation = Activation::kRelu2;
  if (const std::string name = config.Text("mlp_hidden_act", "relu2"); name != "relu2")
    Fail("{}: mlp_hidden_act = \"{}\" is not supported", config.path(), name.substr(0, 100));
  std::vector<std::string> mixers = kinds;
  for (size_t i = 0; i < kinds.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.mixture = kinds[i] == "moe";
    layer.mlp = layer.mixture || kinds[i] == "mlp";
    if (!layer.mlp) continue;
    layer.mixer = Mixer::kNone;
    mixers[i] = "attention";
  }
  if (spec.num_mixture_layers() > 0) spec.mixture = NemotronMixtureFromHf(config);
  SetStateSpaces(config, mixers, spec);
  RefuseOtherSteps(config);
  if (spec.num_state_layers() > 0) spec.recurrence = StateSpaceFromHf(config, kKeys);
  // The next keys describe mixtures. The keys are ignored when no layer is a mixture.
  for (const char* key : {"n_routed_experts", "n_shared_experts", "n_group", "topk_group"}) config.Has(key);
  config.Real("routed_scaling_factor", 1);
  return spec;
}

/// Reads a GGUF file. Layers without keys are MLPs if they have MLP columns, and state spaces otherwise.
ModelSpec NemotronHFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.SetAll(&LayerSpec::rope, -1);
  spec.gated_mlp = false;
  spec.activation = Activation::kRelu2;
  const std::vector<bool> without_keys = LayersWithout(config, kGgufKvHeads, spec);
  const std::vector<bool> without_mlp = LayersWithout(config, kGgufMlpColumns, spec);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.mlp = !without_mlp[i];
    if (without_keys[i]) layer.mixer = layer.mlp ? Mixer::kNone : Mixer::kStateSpace;
  }
  DropFurtherLayers(config, spec);
  if (spec.num_state_layers() > 0) spec.recurrence = StateSpaceFromGguf(config, spec);
  return spec;
}

/// Reads a GGUF file in which all MLPs are mixtures.
ModelSpec NemotronHMoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = NemotronHFromGguf(config);
  spec.architecture = kNemotronH.hf;
  if (config.Count("moe_latent_size", 0) != 0) Fail("{}: {}", config.path(), kLatent);
  for (LayerSpec& layer : spec.layers) layer.mixture = layer.mlp;
  spec.mixture = CorrectedMixtureFromGguf(config);
  if (spec.mixture.groups > 1 && !config.Has("expert_group_used_count"))
    Fail("{}: of {} groups of experts it is not said how many a token chooses", config.path(), spec.mixture.groups);
  // The shared experts form one MLP, whatever their number.
  spec.mixture.shared_intermediate_size = config.Count("expert_shared_feed_forward_length");
  return spec;
}

constexpr const char* kEmbeddings = "backbone.embeddings.weight";
/// The name of the norm in layers of all kinds.
constexpr const char* kNorm = "backbone.layers.{}.norm.weight";

constexpr StateSpaceNames kNemotronStateNames = {.in = "backbone.layers.{}.mixer.in_proj.weight",
                                                 .taps = "backbone.layers.{}.mixer.conv1d.weight",
                                                 .taps_bias = "backbone.layers.{}.mixer.conv1d.bias",
                                                 .rate = "backbone.layers.{}.mixer.A_log",
                                                 .step_bias = "backbone.layers.{}.mixer.dt_bias",
                                                 .skip = "backbone.layers.{}.mixer.D",
                                                 .norm = "backbone.layers.{}.mixer.norm.weight",
                                                 .out = "backbone.layers.{}.mixer.out_proj.weight"};

constexpr MixtureNames kNemotronMixtureNames = {
    .router = "backbone.layers.{}.mixer.gate.weight",
    .gate = nullptr,
    .up = "backbone.layers.{}.mixer.experts.{}.up_proj.weight",
    .down = "backbone.layers.{}.mixer.experts.{}.down_proj.weight",
    .shared_up = "backbone.layers.{}.mixer.shared_experts.up_proj.weight",
    .shared_down = "backbone.layers.{}.mixer.shared_experts.down_proj.weight",
    .correction = "backbone.layers.{}.mixer.gate.e_score_correction_bias"};

std::vector<WeightSpec> NemotronHWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  for (const Role role : {Role::kEmbedding, Role::kHead}) {
    if (role == Role::kEmbedding || spec.tied_embeddings) Rename(weights, role, kEmbeddings);
  }
  Rename(weights, Role::kAttentionNorm, kNorm);
  Rename(weights, Role::kMlpNorm, kNorm);
  WeightOf(weights, Role::kMlpNorm).gguf = GgufName(Role::kAttentionNorm);
  Rename(weights, Role::kQuery, "backbone.layers.{}.mixer.q_proj.weight");
  Rename(weights, Role::kKey, "backbone.layers.{}.mixer.k_proj.weight");
  Rename(weights, Role::kValue, "backbone.layers.{}.mixer.v_proj.weight");
  Rename(weights, Role::kAttentionOut, "backbone.layers.{}.mixer.o_proj.weight");
  Rename(weights, Role::kUp, "backbone.layers.{}.mixer.up_proj.weight");
  Rename(weights, Role::kDown, "backbone.layers.{}.mixer.down_proj.weight");
  Rename(weights, Role::kFinalNorm, "backbone.norm_f.weight");
  std::erase_if(weights, [](const WeightSpec& weight) { return weight.role == Role::kGate; });
  AddStateSpaceWeights(spec, kNemotronStateNames, weights);
  AddMixtureWeights(spec, kNemotronMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kNemotronH = {.hf = "nemotron_h",
                                     .gguf = "nemotron_h",
                                     .from_hf = NemotronHFromHf,
                                     .from_gguf = NemotronHFromGguf,
                                     .weights = NemotronHWeights,
                                     .prediction = PredictionForm::kUnused};
/// The models with mixtures in GGUF files, where they have an architecture name of their own.
constexpr Architecture kNemotronHMoe = {.hf = nullptr,
                                        .gguf = "nemotron_h_moe",
                                        .from_hf = nullptr,
                                        .from_gguf = NemotronHMoeFromGguf,
                                        .weights = NemotronHWeights,
                                        .prediction = PredictionForm::kUnused};

}  // namespace quire::architectures
