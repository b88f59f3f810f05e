// In GPT-NeoX and Pythia, RoPE rotates a part of each head. Attention and MLP are parallel or sequential. Each head's
// queries, keys and values are adjacent in one tensor.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/rotation.h"

namespace quire::architectures {

namespace {

constexpr WeightSpec kGptNeoXTokenTable = {Role::kEmbedding, "gpt_neox.embed_in.weight", Axis::kTokens, Axis::kHidden};

ModelSpec GptNeoXFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {}, false);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu");
  spec.ropes = {
      RopeFromHf(config, spec.layers[0].head_dim,
                 {.theta = config.Real("rotary_emb_base", 10000), .partial = config.Real("rotary_pct", 0.25)})};
  spec.parallel_block = config.Flag("use_parallel_residual", true);
  spec.fused_by_head = true;
  SetBiases(spec, config.Flag("attention_bias", true), true);
  return spec;
}

ModelSpec GptNeoXFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGelu;
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  spec.parallel_block = config.Flag("use_parallel_residual", true);
  return spec;
}

std::vector<WeightSpec> GptNeoXWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {kGptNeoXTokenTable,
                                     {kAttentionNorm, "gpt_neox.layers.{}.input_layernorm.weight", kHidden, kOne},
                                     {kAttentionNormBias, "gpt_neox.layers.{}.input_layernorm.bias", kHidden, kOne},
                                     {kAttentionOut, "gpt_neox.layers.{}.attention.dense.weight", kHidden, kQueries},
                                     {kAttentionOutBias, "gpt_neox.layers.{}.attention.dense.bias", kHidden, kOne},
                                     {kMlpNorm, "gpt_neox.layers.{}.post_attention_layernorm.weight", kHidden, kOne},
                                     {kMlpNormBias, "gpt_neox.layers.{}.post_attention_layernorm.bias", kHidden, kOne},
                                     {kUp, "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight", kMlp, kHidden},
                                     {kUpBias, "gpt_neox.layers.{}.mlp.dense_h_to_4h.bias", kMlp, kOne},
                                     {kDown, "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight", kHidden, kMlp},
                                     {kDownBias, "gpt_neox.layers.{}.mlp.dense_4h_to_h.bias", kHidden, kOne}};
  AddFusedQkv(spec, weights, "gpt_neox.layers.{}.attention.query_key_value.weight",
              "gpt_neox.layers.{}.attention.query_key_value.bias");
  weights.insert(weights.end(), {{kFinalNorm, "gpt_neox.final_layer_norm.weight", kHidden, kOne},
                                 {kFinalNormBias, "gpt_neox.final_layer_norm.bias", kHidden, kOne},
                                 HeadOf(spec, kGptNeoXTokenTable, "embed_out.weight")});
  return WithoutMissingBiases(spec, std::move(weights));
}

// Ends of the names of attention masks, which older files have although masks are no weights.
constexpr const char* kGptNeoXBuffers[] = {".attention.bias", ".attention.masked_bias"};

}  // namespace

constexpr Architecture kGptNeoX = {"gpt_neox",      "gptneox",      GptNeoXFromHf,
                                   GptNeoXFromGguf, GptNeoXWeights, kGptNeoXBuffers};

}  // namespace quire::architectures
