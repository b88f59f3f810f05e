// Phi-3.5-MoE has LayerNorm, biases in attention and in the output head, and one sliding window for all layers. Its
// SparseMixer routers choose two experts for each token.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// Reads longrope's factor for cosines and sines. Throws Error when the factors for short and for long contexts differ,
/// and for other scalings.
void ReadScales(const HfConfig& config, ModelSpec& spec) {
  Rope& rope = spec.ropes[0];
  if (rope.scaling == RopeScaling::kLinear && rope.factor == 1) return;
  if (rope.scaling != RopeScaling::kLongRope)
    Fail("{}: a scaling of positions but longrope is not supported", config.path());
  const char* key = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const HfConfig scaling(config.At(key), config.path() + ": " + key);
  for (const char* scale : {"short_mscale", "long_mscale"}) scaling.At(scale);
  rope.attention_factor = scaling.Real("short_mscale", 1);
  if (scaling.Real("long_mscale", 1) != rope.attention_factor) {
    Fail("{}: a long_mscale that is not the short_mscale is not supported", scaling.path());
  }
}

ModelSpec PhiMoeFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 1000000, .calls_longrope_otherwise = true});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.qkv_bias = spec.out_bias = config.Flag("attention_bias");
  spec.head_bias = config.Flag("lm_head_bias");
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("sliding_window", 0);
  ReadScales(config, spec);
  Mixture mixture = MixtureFromHf(config, "intermediate_size");
  if (mixture.experts_per_token != 2) {
    Fail("{}: num_experts_per_tok = {} is not supported; SparseMixer chooses 2", config.path(),
         mixture.experts_per_token);
  }
  mixture.score = RouterScore::kSparseMixer;
  mixture.tolerance = 2 * config.Real("router_jitter_noise", 0.01);
  SetMixture(spec, mixture);
  return spec;
}

std::vector<WeightSpec> PhiMoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQkvBiases(weights, true);
  AddAttentionOutBias(weights);
  AddNormBiases(weights);
  AddHeadBias(weights);
  AddMixtureWeights(spec, kBlockSparseMixtureNames, weights);
  return WithoutMissingBiases(spec, std::move(weights));
}

}  // namespace

constexpr Architecture kPhiMoe = {"phimoe", nullptr, PhiMoeFromHf, nullptr, PhiMoeWeights};

}  // namespace quire::architectures
