// In every layer of Falcon-H1, attention and a Mamba-2 state space read the same normalized input, and both results are
// added to the residual. The results of nearly all products are multiplied by constant factors.
#include <cmath>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mamba.h"

namespace quire::architectures {

namespace {

/// Returns the list of `count` factors; if the file has no such list, all factors are 1. Throws Error for a list of
/// another length.
std::vector<double> FactorsFromHf(const HfConfig& config, const char* key, size_t count) {
  const std::vector<double> factors = config.Reals(key);
  if (factors.empty()) return std::vector<double>(count, 1.0);
  if (factors.size() != count) Fail("{}: {} lists {} factors instead of {}", config.path(), key, factors.size(), count);
  return factors;
}

Recurrence FalconH1StatesFromHf(const HfConfig& config) {
  Recurrence recurrence = StateSpaceFromHf(config, kMambaKeys);
  const bool is_null = config.json().contains("mamba_d_ssm") && !config.Has("mamba_d_ssm");
  const int64_t columns =
      is_null ? config.Count("mamba_expand", 2) * config.Count("hidden_size") : config.Count("mamba_d_ssm", 1024);
  const bool automatic = !config.Has("mamba_d_head") || config.At("mamba_d_head") == "auto";
  if (automatic && recurrence.value_heads > 0) recurrence.value_dim = columns / recurrence.value_heads;
  if (recurrence.value_heads * recurrence.value_dim != columns) {
    Fail("{}: {} heads of {} numbers are not the {} numbers of the state space", config.path(), recurrence.value_heads,
         recurrence.value_dim, columns);
  }
  const bool before = config.Flag("mamba_norm_before_gate", true);
  if (!config.Flag("mamba_rms_norm")) {
    recurrence.norm = StateNorm::kNone;
  } else {
    recurrence.norm = before ? StateNorm::kBeforeGate : StateNorm::kAfterGate;
  }
  return recurrence;
}

/// Reads the factors. The factors of queries and keys become one factor of attention's scores. The factor of values is
/// multiplied with the factor of attention's output. Throws Error if queries or keys are multiplied by 0.
void ReadFactors(const HfConfig& config, ModelSpec& spec) {
  const double attention_in = config.Real("attention_in_multiplier", 1), state_in = config.Real("ssm_in_multiplier", 1);
  const double scores = attention_in * attention_in * config.Real("key_multiplier", 1);
  if (scores == 0) Fail("{}: keys or queries are multiplied by 0", config.path());
  spec.attention_scale = scores / std::sqrt(static_cast<double>(spec.layers[0].head_dim));
  spec.embedding_scale = config.Real("embedding_multiplier", 1);
  spec.logit_scale = config.Real("lm_head_multiplier", 1);
  const std::vector<double> mlp = FactorsFromHf(config, "mlp_multipliers", 2);
  const std::vector<double> states = FactorsFromHf(config, "ssm_multipliers", 5);
  spec.scales = {.attention_out = attention_in * config.Real("attention_out_multiplier", 1),
                 .state_out = config.Real("ssm_out_multiplier", 1),
                 .mlp_out = mlp[1],
                 .mlp_gate = mlp[0],
                 .state_query = state_in * states[3],
                 .state_key = state_in * states[2],
                 .state_value = state_in * states[1],
                 .state_gate = state_in * states[0],
                 .state_decay = state_in * states[4]};
}

void SetMixers(ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) layer.mixer = Mixer::kAttentionAndStateSpace;
}

ModelSpec FalconH1FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  for (const std::string& kind : KindsOfLayers(config, spec)) {
    if (kind != "hybrid") Fail("{}: layer_types: \"{}\" is not supported", config.path(), kind.substr(0, 100));
  }
  SetMixers(spec);
  spec.recurrence = FalconH1StatesFromHf(config);
  ReadFactors(config, spec);
  return spec;
}

/// Reads a GGUF file, in which the factors are part of the weights.
ModelSpec FalconH1FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  // The embedding includes the embedding's factor, so it cannot be the head, which has another factor.
  if (spec.tied_embeddings)
    Fail(
        "{}: a head that is the embedding is not supported for this architecture: the file lacks the head's factor; "
        "serve the safetensors",
        config.path());
  SetMixers(spec);
  spec.recurrence = StateSpaceFromGguf(config, spec);
  spec.recurrence.norm = Has(config, Role::kStateNorm, 0) ? StateNorm::kAfterGate : StateNorm::kNone;
  return spec;
}

/// Returns the weights. In llama.cpp's files, the name of the MLP's norm lacks the usual end ".weight".
std::vector<WeightSpec> FalconH1Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = BambaWeights(spec);
  WeightOf(weights, Role::kMlpNorm).gguf = "blk.{}.ffn_norm";
  return weights;
}

}  // namespace

constexpr Architecture kFalconH1 = {"falcon_h1", "falcon-h1", FalconH1FromHf, FalconH1FromGguf, FalconH1Weights};

}  // namespace quire::architectures
