// Most layers of Bamba are Mamba-2 state spaces. The other layers have attention, in which RoPE rotates half of each
// head.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mamba.h"

namespace quire::architectures {

namespace {

ModelSpec BambaFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.partial = 0.5});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::rope, 0);
  std::vector<std::string> kinds(spec.layers.size(), "mamba");
  for (const double index : config.Reals("attn_layer_indices")) {
    if (!(index >= 0 && index < static_cast<double>(kinds.size())))
      Fail("{}: attn_layer_indices names layer {} of {}", config.path(), index, kinds.size());
    kinds[static_cast<size_t>(index)] = "attention";
  }
  SetStateSpaces(config, kinds, spec);
  if (spec.num_state_layers() > 0) spec.recurrence = StateSpaceFromHf(config, kMambaKeys);
  return spec;
}

}  // namespace

std::vector<WeightSpec> BambaWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  Rename(weights, Role::kMlpNorm, "model.layers.{}.pre_ff_layernorm.weight");
  Rename(weights, Role::kGate, kFeedForwardGate);
  Rename(weights, Role::kUp, kFeedForwardUp);
  Rename(weights, Role::kDown, kFeedForwardDown);
  Rename(weights, Role::kFinalNorm, kFinalLayerNorm);
  AddStateSpaceWeights(spec, kMambaNames, weights);
  return weights;
}

constexpr Architecture kBamba = {"bamba", nullptr, BambaFromHf, nullptr, BambaWeights};

}  // namespace quire::architectures
