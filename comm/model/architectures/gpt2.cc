// GPT-2: learned positions, and matrices that are stored as [columns, rows].
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"

namespace quire::architectures {

namespace {

constexpr WeightSpec kTokenTable = {Role::kEmbedding, "transformer.wte.weight", "token_embd.weight", Axis::kTokens,
                                    Axis::kHidden};

ModelSpec FromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config,
                                   {.hidden = {"n_embd", "hidden_size"},
                                    .layers = {"n_layer", "num_hidden_layers"},
                                    .heads = {"n_head", "num_attention_heads"},
                                    .max_position = {"n_positions", "max_position_embeddings"},
                                    .max_position_otherwise = 1024,
                                    .epsilon = "layer_norm_epsilon"},
                                   true);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("n_inner", 4 * spec.hidden_size));
  spec.activation = ActivationFromHf(config, "activation_function", "gelu_new");
  spec.position = Position::kLearned;
  spec.transposed = true;
  SetBiases(spec, true, true);
  return spec;
}

ModelSpec FromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGeluTanh;
  spec.position = Position::kLearned;
  return spec;
}

std::vector<WeightSpec> Weights(const ModelSpec& spec) {
  using enum Role;
  const auto layer = [&](Role role, const char* hf, const char* gguf, Axis rows, Axis cols = Axis::kOne) {
    return WeightSpec{.role = role,
                      .hf = hf,
                      .gguf = gguf,
                      .rows = rows,
                      .cols = cols,
                      .transposed = spec.transposed && cols != Axis::kOne};
  };
  using enum Axis;
  std::vector<WeightSpec> weights = {
      kTokenTable,
      {Role::kPositions, "transformer.wpe.weight", "position_embd.weight", Axis::kPositionRows, kHidden},
      layer(kAttentionNorm, "transformer.h.{}.ln_1.weight", "blk.{}.attn_norm.weight", kHidden),
      layer(kAttentionNormBias, "transformer.h.{}.ln_1.bias", "blk.{}.attn_norm.bias", kHidden),
      layer(kAttentionOut, "transformer.h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight", kHidden, kQueries),
      layer(kAttentionOutBias, "transformer.h.{}.attn.c_proj.bias", "blk.{}.attn_output.bias", kHidden),
      layer(kMlpNorm, "transformer.h.{}.ln_2.weight", "blk.{}.ffn_norm.weight", kHidden),
      layer(kMlpNormBias, "transformer.h.{}.ln_2.bias", "blk.{}.ffn_norm.bias", kHidden),
      layer(kUp, "transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight", kMlp, kHidden),
      layer(kUpBias, "transformer.h.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias", kMlp),
      layer(kDown, "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight", kHidden, kMlp),
      layer(kDownBias, "transformer.h.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias", kHidden)};
  AddFusedQkv(spec,
              {"transformer.h.{}.attn.c_attn.weight", "blk.{}.attn_qkv.weight", "transformer.h.{}.attn.c_attn.bias",
               "blk.{}.attn_qkv.bias"},
              weights);
  weights.insert(weights.end(), {{kFinalNorm, "transformer.ln_f.weight", "output_norm.weight", kHidden, kOne},
                                 {kFinalNormBias, "transformer.ln_f.bias", "output_norm.bias", kHidden, kOne},
                                 HeadOf(spec, kTokenTable, "lm_head.weight", "output.weight")});
  return WithoutMissingBiases(spec, std::move(weights));
}

// Masks that older files hold.
constexpr const char* kBuffers[] = {".attn.bias", ".attn.masked_bias"};

}  // namespace

constexpr Architecture kGpt2 = {"gpt2", "gpt2", FromHf, FromGguf, Weights, "transformer.", kBuffers};

}  // namespace quire::architectures
