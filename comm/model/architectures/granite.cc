// Granite 3, dense: Llama with multipliers of the embedding, the scores of attention, what is added to the residual,
// and the logits.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// Logits are divided by `scaling`.
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
constexpr MixtureNames kMixtureNames = {.router = "model.layers.{}.block_sparse_moe.router.layer.weight",
                                        .gate = kInputs,
                                        .up = kInputs,
                                        .down = "model.layers.{}.block_sparse_moe.output_linear.weight"};

/// Granite where every MLP is a mixture.
ModelSpec GraniteMoeFromHf(const HfConfig& config) {
  ModelSpec spec = GraniteFromHf(config);
  Mixture mixture = MixtureFromHf(config, "intermediate_size");
  mixture.score = RouterScore::kSoftmaxOfChosen;
  mixture.file_rows = GateUpRows::kInOrder;
  SetMixture(spec, mixture);
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

}  // namespace

constexpr Architecture kGraniteMoe = {"granitemoe", "granitemoe", GraniteMoeFromHf, GraniteMoeFromGguf,
                                      GraniteMoeWeights};
constexpr Architecture kGranite = {"granite", "granite", GraniteFromHf, GraniteFromGguf, LlamaWeights};

}  // namespace quire::architectures
