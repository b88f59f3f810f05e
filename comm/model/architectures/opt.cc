// OPT has learned positions, which begin at the third row of their table. Its activation is usually ReLU.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"

namespace quire::architectures {

namespace {

constexpr int64_t kPositionOffset = 2;
constexpr WeightSpec kOptTokenTable = {Role::kEmbedding, "model.decoder.embed_tokens.weight", Axis::kTokens,
                                       Axis::kHidden};

ModelSpec OptFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {}, true);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("ffn_dim"));
  spec.activation = ActivationFromHf(config, "activation_function", "relu");
  spec.position = Position::kLearned;
  spec.position_offset = kPositionOffset;
  if (const int64_t width = config.Count("word_embed_proj_dim", spec.hidden_size); width != spec.hidden_size) {
    Fail("{}: word_embed_proj_dim = {} beside a hidden size of {} is not supported", config.path(), width,
         spec.hidden_size);
  }
  const bool biased = config.Flag("enable_bias", true);
  SetBiases(spec, biased, biased);
  return spec;
}

std::vector<WeightSpec> OptWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  return WithoutMissingBiases(spec,
                              {kOptTokenTable,
                               {Role::kPositions, "model.decoder.embed_positions.weight", Axis::kPositionRows, kHidden},
                               {kAttentionNorm, "model.decoder.layers.{}.self_attn_layer_norm.weight", kHidden, kOne},
                               {kAttentionNormBias, "model.decoder.layers.{}.self_attn_layer_norm.bias", kHidden, kOne},
                               {kQuery, "model.decoder.layers.{}.self_attn.q_proj.weight", kQueries, kHidden},
                               {kQueryBias, "model.decoder.layers.{}.self_attn.q_proj.bias", kQueries, kOne},
                               {kKey, "model.decoder.layers.{}.self_attn.k_proj.weight", kKeyValues, kHidden},
                               {kKeyBias, "model.decoder.layers.{}.self_attn.k_proj.bias", kKeyValues, kOne},
                               {kValue, "model.decoder.layers.{}.self_attn.v_proj.weight", kKeyValues, kHidden},
                               {kValueBias, "model.decoder.layers.{}.self_attn.v_proj.bias", kKeyValues, kOne},
                               {kAttentionOut, "model.decoder.layers.{}.self_attn.out_proj.weight", kHidden, kQueries},
                               {kAttentionOutBias, "model.decoder.layers.{}.self_attn.out_proj.bias", kHidden, kOne},
                               {kMlpNorm, "model.decoder.layers.{}.final_layer_norm.weight", kHidden, kOne},
                               {kMlpNormBias, "model.decoder.layers.{}.final_layer_norm.bias", kHidden, kOne},
                               {kUp, "model.decoder.layers.{}.fc1.weight", kMlp, kHidden},
                               {kUpBias, "model.decoder.layers.{}.fc1.bias", kMlp, kOne},
                               {kDown, "model.decoder.layers.{}.fc2.weight", kHidden, kMlp},
                               {kDownBias, "model.decoder.layers.{}.fc2.bias", kHidden, kOne},
                               {kFinalNorm, "model.decoder.final_layer_norm.weight", kHidden, kOne},
                               {kFinalNormBias, "model.decoder.final_layer_norm.bias", kHidden, kOne},
                               HeadOf(spec, kOptTokenTable)});
}

}  // namespace

constexpr Architecture kOpt = {"opt", nullptr, OptFromHf, nullptr, OptWeights};

}  // namespace quire::architectures
