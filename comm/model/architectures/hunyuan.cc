// HunYuan is Llama with norms of each query head and key head after their rotation. The larger models have a mixture of
// experts with a shared MLP in every layer. HunYuan 3 normalizes heads before their rotation, as other families do. It
// has dense layers first, then mixtures with shared experts. The routers use sigmoids with a correction bias.
#include <algorithm>
#include <string_view>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

void NormRotated(ModelSpec& spec) {
  spec.qk_norm = QkNorm::kHeads;
  spec.qk_norm_rotated = true;
}

ModelSpec HunyuanFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.alpha_stretches = true});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  config.Has("use_qk_norm");  // accepted and ignored, as in HF, whose class always norms
  NormRotated(spec);
  return spec;
}

ModelSpec HunyuanDenseFromHf(const HfConfig& config) {
  ModelSpec spec = HunyuanFromHf(config);
  if (config.Count("num_experts", 1) > 1) {  // files of the dense models may say that they have one expert
    Fail("{}: num_experts = {} is not supported for this architecture", config.path(), config.Count("num_experts"));
  }
  return spec;
}

/// Reads a number that a file may give once or for each layer. Throws Error when layers differ.
int64_t CommonCount(const HfConfig& config, const char* key, int64_t otherwise) {
  if (!config.Has(key) || !config.At(key).is_array()) return config.Count(key, otherwise);
  const std::vector<double> counts = config.Reals(key);
  const bool alike = !counts.empty() && std::ranges::count(counts, counts[0]) == std::ssize(counts);
  if (!alike) Fail("{}: {} must be the same for all layers", config.path(), key);
  return static_cast<int64_t>(counts[0]);
}

ModelSpec HunyuanMoeFromHf(const HfConfig& config) {
  ModelSpec spec = HunyuanFromHf(config);
  Mixture mixture;
  mixture.experts = CommonCount(config, "num_experts", 1);
  mixture.experts_per_token = CommonCount(config, config.Has("moe_topk") ? "moe_topk" : "num_experts_per_tok", 1);
  mixture.intermediate_size = mixture.shared_intermediate_size = config.Count("intermediate_size");
  mixture.renormalize = true;
  for (const char* key : {"num_shared_expert", "moe_intermediate_size"}) {
    const int64_t usual = std::string_view(key) == "num_shared_expert" ? 1 : mixture.intermediate_size;
    if (const int64_t said = CommonCount(config, key, usual); said != usual)
      Fail("{}: {} = {} is not supported", config.path(), key, said);
  }
  SetMixture(spec, mixture);
  return spec;
}

/// Reads HunYuan 3.
ModelSpec Hunyuan3FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 11158840});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 8));
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
  spec.qk_norm = QkNorm::kHeads;
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, config.Count("num_shared_experts", 1), config.path());
  mixture.score = RouterScore::kSigmoid;
  mixture.correction_bias = true;
  mixture.renormalize = true;
  mixture.scale = config.Real("router_scaling_factor", 2.826);
  constexpr const char* kDense = "first_k_dense_replace";  // HF ignores this key
  if (!config.Has("mlp_layer_types") && config.Count(kDense, 1) != 1)
    Fail("{}: {} = {} without mlp_layer_types is not supported", config.path(), kDense, config.Count(kDense));
  config.Has(kDense);
  SetMixtureWhereListed(config, 1, spec, mixture);
  return spec;
}

ModelSpec HunyuanMoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  NormRotated(spec);
  Mixture mixture = MixtureFromGguf(config);
  mixture.shared_intermediate_size = config.Count("expert_shared_feed_forward_length", mixture.intermediate_size);
  mixture.renormalize = true;
  SetMixture(spec, mixture);
  return spec;
}

/// Reads a GGUF file. Its theta already includes the scaling that HF's files describe with "alpha".
ModelSpec HunyuanFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  NormRotated(spec);
  return spec;
}

std::vector<WeightSpec> HunyuanWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  Rename(weights, Role::kQueryNorm, "model.layers.{}.self_attn.query_layernorm.weight");
  Rename(weights, Role::kKeyNorm, "model.layers.{}.self_attn.key_layernorm.weight");
  return weights;
}

/// Returns the names, extended by the names of HunYuan's shared MLP.
MixtureNames WithSharedMlp(MixtureNames names) {
  names.shared_gate = "model.layers.{}.mlp.shared_mlp.gate_proj.weight";
  names.shared_up = "model.layers.{}.mlp.shared_mlp.up_proj.weight";
  names.shared_down = "model.layers.{}.mlp.shared_mlp.down_proj.weight";
  return names;
}

std::vector<WeightSpec> HunyuanMoeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = HunyuanWeights(spec);
  MixtureNames names = WithSharedMlp(kQwenMixtureNames);
  names.router = "model.layers.{}.mlp.gate.wg.weight";
  AddMixtureWeights(spec, names, weights);
  return weights;
}

std::vector<WeightSpec> Hunyuan3Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  AddMixtureWeights(spec, WithSharedMlp(kExpertBiasMixtureNames), weights);
  return weights;
}

}  // namespace

constexpr Architecture kHunyuanDense = {"hunyuan_v1_dense", "hunyuan-dense", HunyuanDenseFromHf, HunyuanFromGguf,
                                        HunyuanWeights};
constexpr Architecture kHunyuanMoe = {"hunyuan_v1_moe", "hunyuan-moe", HunyuanMoeFromHf, HunyuanMoeFromGguf,
                                      HunyuanMoeWeights};
constexpr Architecture kHunyuan3 = {.hf = "hy_v3",
                                    .gguf = nullptr,
                                    .from_hf = Hunyuan3FromHf,
                                    .from_gguf = nullptr,
                                    .weights = Hunyuan3Weights,
                                    .prediction = PredictionForm::kUnused};

}  // namespace quire::architectures
