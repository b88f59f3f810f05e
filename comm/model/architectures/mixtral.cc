// Mixtral is Mistral in which every MLP is a mixture of experts.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

ModelSpec MixtralFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 1000000});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("sliding_window", 0);
  Mixture mixture = MixtureFromHf(config, "intermediate_size");
  mixture.renormalize = true;
  SetMixture(spec, mixture);
  return spec;
}

std::vector<WeightSpec> MixtralWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddMixtureWeights(spec, kBlockSparseMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kMixtral = {"mixtral", nullptr, MixtralFromHf, nullptr, MixtralWeights};

}  // namespace quire::architectures
