// AFMoE (Trinity) has norms before and after attention and MLP, and normalizes each query head and key head. A gate
// multiplies attention's output. Three of four layers have a sliding window. The fourth sees the whole context and does
// not use RoPE. Dense layers come first, then mixtures of experts with shared experts. The routers use sigmoids with a
// correction bias.
#include <cmath>

#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

constexpr int64_t kAfmoeFullEvery = 4;

void MakeAfmoe(ModelSpec& spec) {
  spec.norms_after = true;
  spec.qk_norm = QkNorm::kHeads;
  spec.attention_gate = true;
  for (LayerSpec& layer : spec.layers) layer.rope = layer.window > 0 ? 0 : -1;
}

double RootOfHidden(const ModelSpec& spec) { return std::sqrt(static_cast<double>(spec.hidden_size)); }

/// Throws Error if the file says that the weights of the chosen experts are not divided by their sum, because HF's
/// class always divides them. Also throws Error for router scores that are not sigmoids.
void RequireUsualRouter(const HfConfig& config) {
  if (!config.Flag("route_norm", true)) Fail("{}: route_norm = false is not supported", config.path());
  const std::string score = config.Text("score_func", "sigmoid");
  if (score != "sigmoid") {
    Fail("{}: score_func \"{}\" is not supported; supported: sigmoid", config.path(), score.substr(0, 100));
  }
}

ModelSpec AfmoeFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
  const int64_t full_every = config.Count("global_attn_every_n_layers", kAfmoeFullEvery);
  if (full_every < 1) Fail("{}: global_attn_every_n_layers = {} is out of range", config.path(), full_every);
  ReadKinds(config, spec, config.Count("sliding_window", 1024),
            [&](int64_t layer) { return (layer + 1) % full_every != 0; });
  MakeAfmoe(spec);
  if (config.Flag("mup_enabled")) spec.embedding_scale = RootOfHidden(spec);
  RequireUsualRouter(config);
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, config.Count("num_shared_experts", 2), config.path());
  mixture.score = RouterScore::kSigmoid;
  mixture.correction_bias = true;
  mixture.renormalize = true;
  mixture.scale = config.Real("route_scale", 1);
  SetMixtureFrom(config.Count("num_dense_layers", 1), spec, mixture, config.path());
  return spec;
}

/// Reads a GGUF file. Embeddings are always scaled.
ModelSpec AfmoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  KeepWindows(config, spec, kAfmoeFullEvery);
  MakeAfmoe(spec);
  spec.embedding_scale = RootOfHidden(spec);
  SetMixtureFrom(config.Count("leading_dense_block_count", 0), spec, CorrectedMixtureFromGguf(config), config.path());
  return spec;
}

std::vector<WeightSpec> AfmoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddNormsAround(weights);
  Rename(weights, Role::kMlpNorm, "model.layers.{}.pre_mlp_layernorm.weight");
  Rename(weights, Role::kMlpAfterNorm, kPostMlpNorm);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  AddAttentionGate(weights, Axis::kQueries, GgufName(Role::kStateGate));
  AddMixtureWeights(spec, kExpertBiasMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kAfmoe = {"afmoe", "afmoe", AfmoeFromHf, AfmoeFromGguf, AfmoeWeights};

}  // namespace quire::architectures
