// StarCoder2: LayerNorm, grouped queries, a window, biases, an MLP without a gate.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/rotation.h"

namespace quire::architectures {

namespace {

constexpr WeightSpec kTokenTable = {Role::kEmbedding, "model.embed_tokens.weight", "token_embd.weight", Axis::kTokens,
                                    Axis::kHidden};

ModelSpec FromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config,
                                   {.hidden = {"hidden_size"},
                                    .layers = {"num_hidden_layers"},
                                    .heads = {"num_attention_heads"},
                                    .max_position = {"max_position_embeddings"},
                                    .max_position_otherwise = 4096,
                                    .epsilon = "norm_epsilon"},
                                   true);
  spec.num_kv_heads = config.Count("num_key_value_heads", 2);
  spec.intermediate_size = config.Count("intermediate_size");
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu_pytorch_tanh");
  spec.ropes = {RopeFromHf(config, spec.head_dim, {})};
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("sliding_window", 0);
  const bool biased = config.Flag("use_bias", true);
  SetBiases(spec, biased, biased);
  return spec;
}

ModelSpec FromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGeluTanh;
  spec.ropes = {RopeFromGguf(config, spec.head_dim)};
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("attention.sliding_window", 0);
  return spec;
}

std::vector<WeightSpec> Weights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  return WithoutMissingBiases(
      spec, {kTokenTable,
             {kAttentionNorm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", kHidden, kOne},
             {kAttentionNormBias, "model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias", kHidden, kOne},
             {kQuery, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", kQueries, kHidden, true},
             {kQueryBias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", kQueries, kOne, true},
             {kKey, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", kKeyValues, kHidden, true},
             {kKeyBias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", kKeyValues, kOne, true},
             {kValue, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", kKeyValues, kHidden},
             {kValueBias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", kKeyValues, kOne},
             {kAttentionOut, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight", kHidden, kQueries},
             {kAttentionOutBias, "model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias", kHidden, kOne},
             {kMlpNorm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight", kHidden, kOne},
             {kMlpNormBias, "model.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias", kHidden, kOne},
             {kUp, "model.layers.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight", kMlp, kHidden},
             {kUpBias, "model.layers.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias", kMlp, kOne},
             {kDown, "model.layers.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight", kHidden, kMlp},
             {kDownBias, "model.layers.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias", kHidden, kOne},
             {kFinalNorm, "model.norm.weight", "output_norm.weight", kHidden, kOne},
             {kFinalNormBias, "model.norm.bias", "output_norm.bias", kHidden, kOne},
             HeadOf(spec, kTokenTable, "lm_head.weight", "output.weight")});
}

}  // namespace

constexpr Architecture kStarCoder2 = {"starcoder2", "starcoder2", FromHf, FromGguf, Weights};

}  // namespace quire::architectures
