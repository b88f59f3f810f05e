// MPT has ALiBi, LayerNorm and no biases.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"

namespace quire::architectures {

namespace {

/// Throws Error when attn_config has a setting that HF's class ignores. The class always uses ALiBi with slopes down to
/// 2^-8.
void CheckAttention(const HfConfig& config) {
  if (!config.Has("attn_config")) return;
  const HfConfig attention(config.At("attn_config"), config.path() + ": attn_config");
  const std::string type = attention.Text("attn_type", "multihead_attention");
  if (type != "multihead_attention") Fail("{}: attn_type {} is not supported", attention.path(), type.substr(0, 100));
  if (!attention.Flag("alibi", true)) Fail("{}: alibi = false is not supported", attention.path());
  if (attention.Real("alibi_bias_max", 8) != 8) {
    Fail("{}: alibi_bias_max = {} is not supported", attention.path(), attention.Real("alibi_bias_max", 8));
  }
  attention.RefuseWhatNobodyRead();
}

ModelSpec MptFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config,
                                   {.hidden = {"d_model", "hidden_size"},
                                    .layers = {"n_layers", "num_hidden_layers"},
                                    .heads = {"n_heads", "num_attention_heads"},
                                    .max_position = {"max_seq_len"},
                                    .epsilon = "layer_norm_epsilon"},
                                   true);
  CheckAttention(config);
  if (const double ratio = config.Real("expansion_ratio", 4); ratio != 4) {
    Fail("{}: expansion_ratio = {} is not supported", config.path(), ratio);
  }
  spec.SetAll(&LayerSpec::intermediate_size, 4 * spec.hidden_size);
  spec.activation = Activation::kGelu;
  spec.position = Position::kAlibi;
  spec.norm_bias = false;
  return spec;
}

ModelSpec MptFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGelu;
  spec.position = Position::kAlibi;
  spec.alibi_max_bias = config.Real("attention.max_alibi_bias", spec.alibi_max_bias);
  return spec;
}

std::vector<WeightSpec> MptWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {kTransformerTokens,
                                     {kAttentionNorm, "transformer.blocks.{}.norm_1.weight", kHidden, kOne},
                                     {kAttentionOut, "transformer.blocks.{}.attn.out_proj.weight", kHidden, kQueries},
                                     {kMlpNorm, "transformer.blocks.{}.norm_2.weight", kHidden, kOne},
                                     {kUp, "transformer.blocks.{}.ffn.up_proj.weight", kMlp, kHidden},
                                     {kDown, "transformer.blocks.{}.ffn.down_proj.weight", kHidden, kMlp}};
  AddFusedQkv(spec, weights, "transformer.blocks.{}.attn.Wqkv.weight");
  weights.insert(weights.end(),
                 {{kFinalNorm, "transformer.norm_f.weight", kHidden, kOne}, HeadOf(spec, kTransformerTokens)});
  return weights;
}

}  // namespace

constexpr Architecture kMpt = {"mpt", "mpt", MptFromHf, MptFromGguf, MptWeights};

}  // namespace quire::architectures
