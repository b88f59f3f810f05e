// ERNIE 4.5 (text) is Llama in which RoPE rotates pairs of neighbouring dimensions. Models are dense or have mixtures
// of experts with shared experts. A router chooses experts by their probabilities plus a correction bias.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

MixtureNames ErnieMixtureNames() {
  MixtureNames names = kCorrectedMixtureNames;
  names.correction = "model.layers.{}.mlp.moe_statics.e_score_correction_bias";
  return names;
}

/// Reads a count. Returns `otherwise` when the key is missing, and `if_null` when its value is null or 0.
int64_t CountOrNull(const HfConfig& config, const char* key, int64_t otherwise, int64_t if_null) {
  return config.RealOrNull(key, 1) == 0 ? if_null : config.Count(key, otherwise);
}

/// Reads the settings that dense models and mixtures share.
ModelSpec ErnieFromHf(const HfConfig& config, int64_t usual_kv_heads) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 500000});
  spec.SetAll(&LayerSpec::num_kv_heads, CountOrNull(config, "num_key_value_heads", usual_kv_heads, spec.num_heads));
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.tied_embeddings = config.Flag("tie_word_embeddings", true);
  spec.interleaved_rope_rows = true;
  return spec;
}

ModelSpec DenseFromHf(const HfConfig& config) {
  ModelSpec spec = ErnieFromHf(config, 2);
  spec.SetAll(&LayerSpec::head_dim, CountOrNull(config, "head_dim", 128, spec.layers[0].head_dim));
  return spec;
}

ModelSpec ErnieFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  return spec;
}

void SetRouter(Mixture& mixture, int64_t shared, const std::string& path) {
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, shared, path);
  mixture.correction_bias = true;
  mixture.renormalize = true;
}

/// Gives the mixture to each layer l from `first` to `last`, counted from 0, for which l + 1 is a multiple of
/// `interval`.
void SetMixtureBetween(int64_t first, int64_t last, int64_t interval, const Mixture& mixture, const std::string& path,
                       ModelSpec& spec) {
  if (interval < 1) Fail("{}: experts in each {}-th layer", path, interval);
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    spec.layers[static_cast<size_t>(i)].mixture = i >= first && i <= last && (i + 1) % interval == 0;
  }
  if (spec.num_mixture_layers() > 0) spec.mixture = mixture;
}

/// Reads a mixture. HF divides the weights of the chosen experts by the larger of their sum and moe_norm_min. The
/// default of moe_norm_min is too small to matter; other values are refused.
ModelSpec ErnieMoeFromHf(const HfConfig& config) {
  constexpr double kLeastSum = 1e-12;
  ModelSpec spec = ErnieFromHf(config, 4);
  if (config.Real("moe_norm_min", kLeastSum) != kLeastSum) {
    Fail("{}: moe_norm_min is not supported but as {}", config.path(), kLeastSum);
  }
  Mixture mixture;
  mixture.experts = CountOf(config, {"moe_num_experts", "num_experts"}, 64);
  mixture.experts_per_token = CountOf(config, {"moe_k", "num_experts_per_tok"}, 6);
  mixture.intermediate_size = config.Count("moe_intermediate_size", 1536);
  SetRouter(mixture, config.Count("moe_num_shared_experts", 2), config.path());
  const int64_t end = config.Count("moe_layer_end_index", -1);
  SetMixtureBetween(config.Count("moe_layer_start_index", 1), end == -1 ? spec.num_layers() - 1 : end,
                    config.Count("moe_layer_interval", 1), mixture, config.path(), spec);
  return spec;
}

ModelSpec ErnieMoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = ErnieFromGguf(config);
  Mixture mixture = MixtureFromGguf(config);
  SetRouter(mixture, config.Count("expert_shared_count", 0), config.path());
  SetMixtureBetween(config.Count("leading_dense_block_count", 0), spec.num_layers() - 1,
                    config.Count("interleave_moe_layer_step", 1), mixture, config.path(), spec);
  return spec;
}

std::vector<WeightSpec> MixtureWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddMixtureWeights(spec, ErnieMixtureNames(), weights);
  return weights;
}

}  // namespace

constexpr Architecture kErnie = {"ernie4_5", "ernie4_5", DenseFromHf, ErnieFromGguf, LlamaWeights};
constexpr Architecture kErnieMoe = {
    .hf = "ernie4_5_moe",
    .gguf = "ernie4_5-moe",
    .from_hf = ErnieMoeFromHf,
    .from_gguf = ErnieMoeFromGguf,
    .weights = MixtureWeights,
    .prediction = PredictionForm::kUnused,
};

}  // namespace quire::architectures
