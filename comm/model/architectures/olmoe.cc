// OLMoE is Llama in which every MLP is a mixture of experts. It normalizes all queries of a token together, and all its
// keys together.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

ModelSpec OlmoeFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.qk_norm = QkNorm::kWhole;
  Mixture mixture = MixtureFromHf(config, "intermediate_size");
  mixture.renormalize = config.Flag("norm_topk_prob");
  SetMixture(spec, mixture);
  return spec;
}

ModelSpec OlmoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qk_norm = QkNorm::kWhole;
  SetMixture(spec, MixtureFromGguf(config));
  return spec;
}

std::vector<WeightSpec> OlmoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kQueries, Axis::kKeyValues);
  AddMixtureWeights(spec, kQwenMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kOlmoe = {"olmoe", "olmoe", OlmoeFromHf, OlmoeFromGguf, OlmoeWeights};

}  // namespace quire::architectures
