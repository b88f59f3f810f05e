// Granite 3, dense: Llama with multipliers of the embedding, the scores of attention, what is added to the residual,
// and the logits.
#include "comm/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"

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

}  // namespace

constexpr Architecture kGranite = {"granite", "granite", GraniteFromHf, GraniteFromGguf, LlamaWeights};

}  // namespace quire::architectures
