// This file describes DeepSeek-V2 and V3, models with the same structure (Kimi-K2 and Moonlight), and GLM-4.7-Flash.
// Latent attention (MLA) computes the keys and values of all heads from one short vector for each token. Dense layers
// come first, then mixtures of experts with shared experts. Routers use a softmax or, from V3 on, sigmoids with a
// correction bias and groups of experts.
#include <cmath>

#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

constexpr const char *kGgufKeysAndValues = "blk.{}.attn_kv_b.weight", *kGgufKeys = "blk.{}.attn_k_b.weight",
                     *kGgufValues = "blk.{}.attn_v_b.weight", *kGgufQueriesOfRank = "blk.{}.attn_q_b.weight";

/// Sets all settings that follow from the sizes of latents. Attention scores are multiplied by yarn^2.
void SetLatent(const LatentAttention& latent, double yarn, const std::string& path, ModelSpec& spec) {
  CheckLatentAttention(latent, path);
  spec.latent = latent;
  spec.SetAll(&LayerSpec::num_kv_heads, 1);
  spec.SetAll(&LayerSpec::head_dim, latent.rotated_dim + latent.rank);
  spec.ropes[0].rotated_dims = latent.rotated_dim;
  spec.attention_scale = yarn * yarn / std::sqrt(static_cast<double>(latent.query_dim()));
}

/// Returns YaRN's factor; 1 without YaRN. Its square multiplies attention scores. The models' own code, HF, llama.cpp
/// and vLLM compute the same factor.
double YarnOfHf(const HfConfig& config, const ModelSpec& spec) {
  if (spec.ropes[0].scaling != RopeScaling::kYarn) return 1;
  const char* key = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const double all = HfConfig(config.At(key), config.path() + ": " + key).Real("mscale_all_dim", 0);
  return all == 0 ? 1 : YarnAttention(spec.ropes[0].factor, all);
}

ModelSpec LatentsFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  const LatentAttention latent = {.rank = config.Count("kv_lora_rank"),
                                  .query_rank = config.Count("q_lora_rank", 0),
                                  .key_dim = config.Count("qk_nope_head_dim"),
                                  .rotated_dim = config.Count("qk_rope_head_dim"),
                                  .value_dim = config.Count("v_head_dim")};
  if (const int64_t said = config.Count("qk_head_dim", latent.query_dim()); said != latent.query_dim())
    Fail("{}: a qk_head_dim of {} is not the sum of its parts", config.path(), said);
  SetLatent(latent, YarnOfHf(config, spec), config.path(), spec);
  spec.interleaved_rope_rows = config.Flag("rope_interleave", true);
  return spec;
}

ModelSpec DeepseekV2FromHf(const HfConfig& config) {
  ModelSpec spec = LatentsFromHf(config);
  const std::string method = config.Text("topk_method", "greedy");
  if (method != "greedy") {
    Fail("{}: topk_method \"{}\" is not supported for this architecture; supported: greedy", config.path(),
         method.substr(0, 100));
  }
  for (const char* without_meaning : {"n_group", "topk_group"}) config.Has(without_meaning);
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, config.Count("n_shared_experts", 0), config.path());
  mixture.renormalize = config.Flag("norm_topk_prob");
  mixture.scale = config.Real("routed_scaling_factor", 1);
  SetMixtureFrom(config.Count("first_k_dense_replace", 0), spec, mixture, config.path());
  return spec;
}

ModelSpec DeepseekV3FromHf(const HfConfig& config) {
  ModelSpec spec = LatentsFromHf(config);
  SetMixtureFrom(config.Count("first_k_dense_replace", 3), spec, CorrectedMixtureFromHf(config, true), config.path());
  return spec;
}

ModelSpec Glm4MoeLiteFromHf(const HfConfig& config) {
  ModelSpec spec = LatentsFromHf(config);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  const std::vector<std::string> kinds = config.Texts("mlp_layer_types");
  if (kinds.empty()) {
    SetMixtureFrom(config.Count("first_k_dense_replace", 1), spec, CorrectedMixtureFromHf(config, true), config.path());
    return spec;
  }
  if (kinds.size() != spec.layers.size())
    Fail("{}: mlp_layer_types lists {} layers of {}", config.path(), kinds.size(), spec.layers.size());
  config.Has("first_k_dense_replace");  // accepted and ignored: mlp_layer_types has priority
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != "dense" && kinds[i] != "sparse")
      Fail("{}: mlp_layer_types: \"{}\" is not supported", config.path(), kinds[i].substr(0, 100));
    spec.layers[i].mixture = kinds[i] == "sparse";
  }
  if (spec.num_mixture_layers() > 0) spec.mixture = CorrectedMixtureFromHf(config, true);
  return spec;
}

ModelSpec DeepseekFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  DropFurtherLayers(config, spec);
  LatentAttention latent = {.rank = config.Count("attention.kv_lora_rank"),
                            .query_rank = config.Count("attention.q_lora_rank", 0),
                            .rotated_dim = config.Count("rope.dimension_count"),
                            .norm_epsilon = spec.norm_epsilon,
                            .by_head = Has(config, kGgufKeys)};
  // In newer files, keys without _mla give the sizes of what the KV cache holds, and keys with _mla give the heads'
  // sizes.
  latent.key_dim =
      config.Count(config.Has("attention.key_length_mla") ? "attention.key_length_mla" : "attention.key_length") -
      latent.rotated_dim;
  latent.value_dim =
      config.Count(config.Has("attention.value_length_mla") ? "attention.value_length_mla" : "attention.value_length");
  double yarn = 1;
  if (spec.ropes[0].scaling == RopeScaling::kYarn) {
    const double of_logarithm = config.Real("rope.scaling.yarn_log_multiplier", 0);  // a tenth of mscale_all_dim
    if (of_logarithm != 0) {
      yarn = YarnAttention(spec.ropes[0].factor, 10 * of_logarithm);
      spec.ropes[0].attention_factor = 1;  // in all models of this family, mscale equals mscale_all_dim
    }
  }
  SetLatent(latent, yarn, config.path(), spec);
  spec.interleaved_rope_rows = true;
  Mixture mixture = MixtureFromGguf(config);
  const bool corrected = mixture.score == RouterScore::kSigmoid;
  if (!corrected && mixture.groups > 1)
    Fail("{}: experts in {} groups under a softmax are not supported", config.path(), mixture.groups);
  mixture.correction_bias = corrected;
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, config.Count("expert_shared_count", 0), config.path());
  SetMixtureFrom(config.Count("leading_dense_block_count", 0), spec, mixture, config.path());
  spec.architecture = corrected ? kDeepseekV3.hf : kDeepseekV2.hf;
  return spec;
}

std::vector<WeightSpec> LatentWeights(const ModelSpec& spec) {
  using enum Axis;
  const LatentAttention& latent = spec.latent;
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  std::erase_if(weights, [](const WeightSpec& w) { return w.role == Role::kKey || w.role == Role::kValue; });
  WeightSpec& query = WeightOf(weights, Role::kQuery);
  query.rotates = false;  // decoders reorder rotated dimensions after the products
  query.rows = kQueryParts;
  if (latent.query_rank > 0) {
    query.cols = kQueryRank;
    query.hf = "model.layers.{}.self_attn.q_b_proj.weight";
    query.gguf = kGgufQueriesOfRank;
  }
  WeightOf(weights, Role::kAttentionOut).cols = kValueParts;
  std::vector<WeightSpec> mine = {
      {Role::kLatentIn, "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", kHeadDim, kHidden},
      {Role::kLatentNorm, "model.layers.{}.self_attn.kv_a_layernorm.weight", kLatent, kOne},
  };
  if (latent.query_rank > 0) {
    mine.push_back({Role::kQueryIn, "model.layers.{}.self_attn.q_a_proj.weight", kQueryRank, kHidden});
    mine.push_back({Role::kQueryInNorm, "model.layers.{}.self_attn.q_a_layernorm.weight", kQueryRank, kOne});
  }
  if (latent.by_head) {
    mine.push_back(
        {.role = Role::kLatentKeys, .hf = nullptr, .rows = kLatents, .cols = kKeyPartDim, .gguf = kGgufKeys});
    mine.push_back(
        {.role = Role::kLatentValues, .hf = nullptr, .rows = kValueParts, .cols = kLatent, .gguf = kGgufValues});
  } else {
    constexpr const char* kBoth = "model.layers.{}.self_attn.kv_b_proj.weight";
    mine.push_back({Role::kLatentKeys, kBoth, kKeyParts, kLatent, false, Fusion::kByHead, false, kGgufKeysAndValues});
    mine.push_back(
        {Role::kLatentValues, kBoth, kValueParts, kLatent, false, Fusion::kByHead, false, kGgufKeysAndValues});
  }
  weights.insert(weights.begin() + 1, mine.begin(), mine.end());
  AddMixtureWeights(spec, kCorrectedMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kDeepseekV2 = {
    .hf = "deepseek_v2",
    .gguf = "deepseek2",
    .from_hf = DeepseekV2FromHf,
    .from_gguf = DeepseekFromGguf,
    .weights = LatentWeights,
};
constexpr Architecture kDeepseekV3 = {
    .hf = "deepseek_v3",
    .gguf = nullptr,
    .from_hf = DeepseekV3FromHf,
    .from_gguf = nullptr,
    .weights = LatentWeights,
    .prediction = PredictionForm::kLikeDeepseek,
};
constexpr Architecture kGlm4MoeLite = {
    .hf = "glm4_moe_lite",
    .gguf = nullptr,
    .from_hf = Glm4MoeLiteFromHf,
    .from_gguf = nullptr,
    .weights = LatentWeights,
    .prediction = PredictionForm::kLikeDeepseek,
};

}  // namespace quire::architectures
