// Granite 3 is Llama with multipliers for the embedding, attention scores, additions to the residual, and logits. It
// has MLPs or mixtures of experts. Granite 4 also has Mamba-2 state spaces in most layers, and its attention usually
// does not use positions.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mamba.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// Returns the factor of the logits: the inverse of the file's divisor. Throws Error for a divisor of 0.
double LogitScale(double scaling, const std::string& path) {
  if (scaling == 0) Fail("{}: logits that are divided by 0", path);
  return 1 / scaling;
}

ModelSpec GraniteFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.embedding_scale = config.Real("embedding_multiplier", 1);
  spec.attention_scale = config.Real("attention_multiplier", 1);
  spec.residual_scale = config.Real("residual_multiplier", 1);
  spec.logit_scale = LogitScale(config.Real("logits_scaling", 1), config.path());
  return spec;
}

ModelSpec GraniteFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  spec.embedding_scale = config.Real("embedding_scale", 1);
  spec.attention_scale = config.Real("attention.scale", 0);
  spec.residual_scale = config.Real("residual_scale", 1);
  spec.logit_scale = LogitScale(config.Real("logit_scale", 1), config.path());
  return spec;
}

constexpr const char* kInputs = "model.layers.{}.block_sparse_moe.input_linear.weight";
constexpr const char* kShared = "model.layers.{}.shared_mlp.input_linear.weight";
constexpr const char* kSharedDown = "model.layers.{}.shared_mlp.output_linear.weight";
constexpr MixtureNames kMixtureNames = {.router = "model.layers.{}.block_sparse_moe.router.layer.weight",
                                        .gate = kInputs,
                                        .up = kInputs,
                                        .down = "model.layers.{}.block_sparse_moe.output_linear.weight",
                                        .shared_gate = kShared,
                                        .shared_up = kShared,
                                        .shared_down = kSharedDown};

Mixture GraniteMixtureFromHf(const HfConfig& config) {
  Mixture mixture = MixtureFromHf(config, "intermediate_size");
  mixture.score = RouterScore::kSoftmaxOfChosen;
  mixture.file_rows = GateUpRows::kInOrder;
  return mixture;
}

/// Reads a Granite model in which every MLP is a mixture of experts.
ModelSpec GraniteMoeFromHf(const HfConfig& config) {
  ModelSpec spec = GraniteFromHf(config);
  SetMixture(spec, GraniteMixtureFromHf(config));
  return spec;
}

/// Reads Granite 4. In models without experts, the shared expert is the MLP.
ModelSpec GraniteHybridFromHf(const HfConfig& config) {
  ModelSpec spec = GraniteFromHf(config);
  const std::string positions = config.Text("position_embedding_type", "nope");
  if (positions != "nope" && positions != "rope")
    Fail("{}: position_embedding_type = \"{}\" is not supported", config.path(), positions.substr(0, 100));
  spec.SetAll(&LayerSpec::rope, positions == "rope" ? 0 : -1);
  const int64_t shared = config.Count("shared_intermediate_size", 1024);
  if (config.Count("num_local_experts", 8) > 0) {
    Mixture mixture = GraniteMixtureFromHf(config);
    mixture.shared_intermediate_size = shared;
    SetMixture(spec, mixture);
  } else {
    spec.SetAll(&LayerSpec::intermediate_size, shared);
  }
  const std::vector<std::string> kinds = KindsOfLayers(config, spec);
  SetStateSpaces(config, kinds.empty() ? std::vector<std::string>(spec.layers.size(), "mamba") : kinds, spec);
  if (spec.num_state_layers() > 0) spec.recurrence = StateSpaceFromHf(config, kMambaKeys);
  return spec;
}

/// Reads the configuration in a GGUF file. Layers without key and value heads are state-space layers. Files converted
/// from Bamba have this architecture name, too. Such files are refused, because in their row order RoPE would rotate
/// other pairs of dimensions than the model does.
ModelSpec GraniteHybridFromGguf(const GgufConfig& config) {
  ModelSpec spec = GraniteFromGguf(config);
  spec.SetAll(&LayerSpec::rope, config.Flag("rope.scaling.finetuned", false) ? 0 : -1);
  if (spec.layers[0].rope == 0 && spec.ropes[0].rotated_dims != 0)
    Fail("{}: rope.dimension_count of a part of each head is not supported for this architecture", config.path());
  SetMixerWithoutKeys(config, Mixer::kStateSpace, spec);
  if (spec.num_state_layers() > 0) spec.recurrence = StateSpaceFromGguf(config, spec);
  const int64_t shared = config.Count("expert_shared_feed_forward_length", 0);
  if (config.Count("expert_count", 0) > 0) {
    Mixture mixture = MixtureFromGguf(config);
    mixture.score = RouterScore::kSoftmaxOfChosen;
    mixture.shared_intermediate_size = shared;
    SetMixture(spec, mixture);
  } else if (shared > 0) {
    spec.SetAll(&LayerSpec::intermediate_size, shared);
  }
  return spec;
}

ModelSpec GraniteMoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = GraniteFromGguf(config);
  Mixture mixture = MixtureFromGguf(config);
  mixture.score = RouterScore::kSoftmaxOfChosen;
  SetMixture(spec, mixture);
  return spec;
}

std::vector<WeightSpec> GraniteMoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddMixtureWeights(spec, kMixtureNames, weights);
  return weights;
}

std::vector<WeightSpec> GraniteHybridWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  Fuse(weights, {Role::kGate, Role::kUp}, kShared, nullptr);
  Rename(weights, Role::kDown, kSharedDown);
  AddStateSpaceWeights(spec, kMambaNames, weights);
  AddMixtureWeights(spec, kMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kGraniteHybrid = {"granitemoehybrid", "granitehybrid", GraniteHybridFromHf,
                                         GraniteHybridFromGguf, GraniteHybridWeights};
constexpr Architecture kGraniteMoe = {"granitemoe", "granitemoe", GraniteMoeFromHf, GraniteMoeFromGguf,
                                      GraniteMoeWeights};
constexpr Architecture kGranite = {"granite", "granite", GraniteFromHf, GraniteFromGguf, LlamaWeights};

}  // namespace quire::architectures
