// Phi-1, Phi-1.5 and Phi-2: a part of each head rotates, attention and MLP share a norm side by side, biases
// everywhere, the output head's included.
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
                                    .max_position_otherwise = 2048,
                                    .epsilon = "layer_norm_eps"},
                                   false);
  spec.num_kv_heads = config.Count("num_key_value_heads", spec.num_heads);
  spec.intermediate_size = config.Count("intermediate_size");
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu_new");
  spec.ropes = {RopeFromHf(config, spec.head_dim, {.partial = 0.5})};
  spec.parallel_block = spec.shared_norm = true;
  spec.head_bias = true;
  SetBiases(spec, true, true);
  return spec;
}

std::vector<WeightSpec> Weights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  return {kTokenTable,
          {kAttentionNorm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", kHidden, kOne},
          {kAttentionNormBias, "model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias", kHidden, kOne},
          {kQuery, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", kQueries, kHidden, true},
          {kQueryBias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", kQueries, kOne, true},
          {kKey, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", kKeyValues, kHidden, true},
          {kKeyBias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", kKeyValues, kOne, true},
          {kValue, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", kKeyValues, kHidden},
          {kValueBias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", kKeyValues, kOne},
          {kAttentionOut, "model.layers.{}.self_attn.dense.weight", "blk.{}.attn_output.weight", kHidden, kQueries},
          {kAttentionOutBias, "model.layers.{}.self_attn.dense.bias", "blk.{}.attn_output.bias", kHidden, kOne},
          {kUp, "model.layers.{}.mlp.fc1.weight", "blk.{}.ffn_up.weight", kMlp, kHidden},
          {kUpBias, "model.layers.{}.mlp.fc1.bias", "blk.{}.ffn_up.bias", kMlp, kOne},
          {kDown, "model.layers.{}.mlp.fc2.weight", "blk.{}.ffn_down.weight", kHidden, kMlp},
          {kDownBias, "model.layers.{}.mlp.fc2.bias", "blk.{}.ffn_down.bias", kHidden, kOne},
          {kFinalNorm, "model.final_layernorm.weight", "output_norm.weight", kHidden, kOne},
          {kFinalNormBias, "model.final_layernorm.bias", "output_norm.bias", kHidden, kOne},
          HeadOf(spec, kTokenTable, "lm_head.weight", "output.weight"),
          {kHeadBias, "lm_head.bias", "output.bias", kVocab, kOne}};
}

}  // namespace

constexpr Architecture kPhi = {"phi", nullptr, FromHf, nullptr, Weights};

}  // namespace quire::architectures
