// gpt-oss is Llama with biases in attention, routers and experts, a sliding window in every other layer, attention
// sinks, and a mixture of experts in every layer. The experts clamp their gates, and their weights may be MXFP4.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

constexpr int64_t kFullEvery = 2;
constexpr double kGptOssTheta = 150000, kLimit = 7, kSlope = 1.702;

constexpr const char* kGateUpBias = "model.layers.{}.mlp.experts.gate_up_proj_bias";
constexpr MixtureNames kNames = {.router = "model.layers.{}.mlp.router.weight",
                                 .gate = kStackedGateUp,
                                 .up = kStackedGateUp,
                                 .down = kStackedDown,
                                 .router_bias = "model.layers.{}.mlp.router.bias",
                                 .gate_bias = kGateUpBias,
                                 .up_bias = kGateUpBias,
                                 .down_bias = "model.layers.{}.mlp.experts.down_proj_bias"};

void SetParts(ModelSpec& spec, Mixture mixture) {
  spec.attention_sinks = true;
  spec.activation = Activation::kClampedSilu;
  mixture.score = RouterScore::kSoftmaxOfChosen;
  mixture.router_bias = true;
  mixture.expert_biases = true;
  SetMixture(spec, mixture);
}

/// Returns true when the experts are MXFP4, and false when they are not quantised; then they are stored as [columns,
/// rows]. Throws Error for other quantisation.
bool HasMxFp4(const HfConfig& config) {
  if (!config.Has("quantization_config")) return false;
  const HfConfig quantization(config.At("quantization_config"), config.path() + ": quantization_config");
  if (const std::string method = quantization.Text("quant_method", ""); method != "mxfp4") {
    Fail("{}: quant_method \"{}\" is not supported for this architecture; supported: mxfp4", quantization.path(),
         method.substr(0, 100));
  }
  return true;
}

ModelSpec GptOssFromHf(const HfConfig& config) {
  if (!config.Has("rope_scaling")) config.At("rope_parameters");  // HF's defaults for missing keys fit no real model
  ModelSpec spec = LlamaFromHf(config, {.theta = kGptOssTheta});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 64));
  spec.qkv_bias = spec.out_bias = config.Flag("attention_bias", true);
  ReadKinds(config, spec, config.Count("sliding_window", 128),
            [](int64_t layer) { return (layer + 1) % kFullEvery != 0; });
  if (config.Real("swiglu_alpha", kSlope) != kSlope) {
    Fail("{}: swiglu_alpha is not supported but as {}", config.path(), kSlope);
  }
  spec.gate_limit = config.Real("swiglu_limit", kLimit);
  spec.transposed = !HasMxFp4(config);
  Mixture mixture = MixtureFromHf(config, "intermediate_size");
  mixture.file_rows = GateUpRows::kAlternating;
  SetParts(spec, mixture);
  return spec;
}

/// Reads a GGUF file. gpt-oss does not round YaRN's ramp limits; GGUF files do not state this.
ModelSpec GptOssFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.ropes[0].truncate = false;
  spec.qkv_bias = spec.out_bias = true;
  KeepWindows(config, spec, kFullEvery);
  spec.gate_limit = kLimit;
  SetParts(spec, MixtureFromGguf(config));
  return spec;
}

std::vector<WeightSpec> GptOssWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  WeightOf(weights, Role::kMlpNorm).gguf = GgufName(Role::kAttentionAfterNorm);
  if (spec.qkv_bias) AddQkvBiases(weights, false);
  if (spec.out_bias) AddAttentionOutBias(weights);
  weights.insert(weights.begin() + 1, {Role::kSinks, kSinksName, Axis::kHeads, Axis::kOne});
  AddMixtureWeights(spec, kNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kGptOss = {"gpt_oss", "gpt-oss", GptOssFromHf, GptOssFromGguf, GptOssWeights};

}  // namespace quire::architectures
