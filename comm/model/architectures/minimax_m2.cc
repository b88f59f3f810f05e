// MiniMax-M2 normalizes all queries of a token together, and all its keys together. RoPE rotates a part of each head.
// Every layer has a mixture of experts. The routers use sigmoids with a correction bias.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

MixtureNames Names() {
  MixtureNames names = kBlockSparseMixtureNames;
  names.correction = "model.layers.{}.block_sparse_moe.e_score_correction_bias";
  return names;
}

void SetRouter(ModelSpec& spec, Mixture mixture) {
  mixture.score = RouterScore::kSigmoid;
  mixture.correction_bias = true;
  mixture.renormalize = true;
  SetMixture(spec, mixture);
  spec.qk_norm = QkNorm::kWhole;
}

/// Returns the fraction of each head that rotates, for files whose rope_parameters lack the fraction. Such files give
/// the number of dimensions that rotate. Throws Error unless that number is from 1 to head_dim.
double PartThatRotates(const HfConfig& config, int64_t head_dim) {
  const int64_t rotated = config.Count("rotary_dim", head_dim);
  if (head_dim < 1 || rotated < 1 || rotated > head_dim) {
    Fail("{}: rotary_dim = {} of a head_dim of {}", config.path(), rotated, head_dim);
  }
  return static_cast<double>(rotated) / static_cast<double>(head_dim);
}

ModelSpec MiniMaxM2FromHf(const HfConfig& config) {
  const int64_t head_dim = config.Count("head_dim", 128);
  ModelSpec spec = LlamaFromHf(config, {.theta = 5000000, .partial = PartThatRotates(config, head_dim)});
  spec.SetAll(&LayerSpec::head_dim, head_dim);
  if (!config.Flag("use_qk_norm", true)) Fail("{}: use_qk_norm = false is not supported", config.path());
  RequireSigmoid(config);
  SetRouter(spec, MixtureFromHf(config, "intermediate_size"));
  return spec;
}

ModelSpec MiniMaxM2FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  SetRouter(spec, MixtureFromGguf(config));
  return spec;
}

std::vector<WeightSpec> MiniMaxM2Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kQueries, Axis::kKeyValues);
  AddMixtureWeights(spec, Names(), weights);
  return weights;
}

}  // namespace

constexpr Architecture kMiniMaxM2 = {"minimax_m2", "minimax-m2", MiniMaxM2FromHf, MiniMaxM2FromGguf, MiniMaxM2Weights};

}  // namespace quire::architectures
