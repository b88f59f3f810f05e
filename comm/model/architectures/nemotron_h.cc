// Nemotron-H: every layer is one thing alone, a state space of Mamba-2, attention without positions, or an MLP with the
// square of ReLU. Its mixtures, whose experts have no gates, are refused.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mamba.h"

namespace quire::architectures {

namespace {

/// What each layer is, in words or, in older files, in a letter.
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

/// HF takes time_step_min for the least step, while it reads prompts and not for tokens after them: as long as it is
/// as small as in all files, nobody sees that. It knows other names of some keys, which no file has.
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
    if (kinds[i] == "moe")
      Fail("{}: layer {} is a mixture of experts without gates, which are not supported", config.path(), i);
    layer.mlp = kinds[i] == "mlp";
    if (!layer.mlp) continue;
    layer.mixer = Mixer::kNone;
    mixers[i] = "attention";
  }
  SetStateSpaces(config, mixers, spec);
  RefuseOtherSteps(config);
  if (spec.num_state_layers() > 0) spec.recurrence = StateSpaceFromHf(config, kKeys);
  // Of mixtures, which no layer is.
  for (const char* key : {"n_routed_experts", "n_shared_experts", "n_group", "topk_group"}) config.Has(key);
  config.Real("routed_scaling_factor", 1);
  return spec;
}

constexpr const char* kEmbeddings = "backbone.embeddings.weight";
/// A layer's norm has one name, whatever the layer is.
constexpr const char* kNorm = "backbone.layers.{}.norm.weight";

constexpr StateSpaceNames kNames = {.in = "backbone.layers.{}.mixer.in_proj.weight",
                                    .taps = "backbone.layers.{}.mixer.conv1d.weight",
                                    .taps_bias = "backbone.layers.{}.mixer.conv1d.bias",
                                    .rate = "backbone.layers.{}.mixer.A_log",
                                    .step_bias = "backbone.layers.{}.mixer.dt_bias",
                                    .skip = "backbone.layers.{}.mixer.D",
                                    .norm = "backbone.layers.{}.mixer.norm.weight",
                                    .out = "backbone.layers.{}.mixer.out_proj.weight"};

std::vector<WeightSpec> NemotronHWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  for (const Role role : {Role::kEmbedding, Role::kHead}) {
    if (role == Role::kEmbedding || spec.tied_embeddings) Rename(weights, role, kEmbeddings);
  }
  Rename(weights, Role::kAttentionNorm, kNorm);
  Rename(weights, Role::kMlpNorm, kNorm);
  Rename(weights, Role::kQuery, "backbone.layers.{}.mixer.q_proj.weight");
  Rename(weights, Role::kKey, "backbone.layers.{}.mixer.k_proj.weight");
  Rename(weights, Role::kValue, "backbone.layers.{}.mixer.v_proj.weight");
  Rename(weights, Role::kAttentionOut, "backbone.layers.{}.mixer.o_proj.weight");
  Rename(weights, Role::kUp, "backbone.layers.{}.mixer.up_proj.weight");
  Rename(weights, Role::kDown, "backbone.layers.{}.mixer.down_proj.weight");
  Rename(weights, Role::kFinalNorm, "backbone.norm_f.weight");
  std::erase_if(weights, [](const WeightSpec& weight) { return weight.role == Role::kGate; });
  AddStateSpaceWeights(spec, kNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kNemotronH = {.hf = "nemotron_h",
                                     .gguf = nullptr,
                                     .from_hf = NemotronHFromHf,
                                     .from_gguf = nullptr,
                                     .weights = NemotronHWeights,
                                     .predicts_further = true};

}  // namespace quire::architectures
