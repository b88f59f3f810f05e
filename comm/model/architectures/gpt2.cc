// GPT-2 has learned positions. Its safetensors store the matrices of layers as [columns, rows].
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"

namespace quire::architectures {

namespace {

ModelSpec Gpt2FromHf(const HfConfig& config) {
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

ModelSpec Gpt2FromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGeluTanh;
  spec.position = Position::kLearned;
  return spec;
}

std::vector<WeightSpec> Gpt2Weights(const ModelSpec& spec) {
  using enum Role;
  const auto layer = [&](Role role, const char* hf, Axis rows, Axis cols = Axis::kOne) {
    return WeightSpec{
        .role = role, .hf = hf, .rows = rows, .cols = cols, .transposed = spec.transposed && cols != Axis::kOne};
  };
  using enum Axis;
  std::vector<WeightSpec> weights = {kTransformerTokens,
                                     {Role::kPositions, "transformer.wpe.weight", Axis::kPositionRows, kHidden},
                                     layer(kAttentionNorm, "transformer.h.{}.ln_1.weight", kHidden),
                                     layer(kAttentionNormBias, "transformer.h.{}.ln_1.bias", kHidden),
                                     layer(kAttentionOut, "transformer.h.{}.attn.c_proj.weight", kHidden, kQueries),
                                     layer(kAttentionOutBias, "transformer.h.{}.attn.c_proj.bias", kHidden),
                                     layer(kMlpNorm, "transformer.h.{}.ln_2.weight", kHidden),
                                     layer(kMlpNormBias, "transformer.h.{}.ln_2.bias", kHidden),
                                     layer(kUp, "transformer.h.{}.mlp.c_fc.weight", kMlp, kHidden),
                                     layer(kUpBias, "transformer.h.{}.mlp.c_fc.bias", kMlp),
                                     layer(kDown, "transformer.h.{}.mlp.c_proj.weight", kHidden, kMlp),
                                     layer(kDownBias, "transformer.h.{}.mlp.c_proj.bias", kHidden)};
  AddFusedQkv(spec, weights, "transformer.h.{}.attn.c_attn.weight", "transformer.h.{}.attn.c_attn.bias");
  weights.insert(weights.end(), {kTransformerFinalNorm, kTransformerFinalNormBias, HeadOf(spec, kTransformerTokens)});
  return WithoutMissingBiases(spec, std::move(weights));
}

// Ends of the names of attention masks, which older files have although masks are no weights.
constexpr const char* kGpt2Buffers[] = {".attn.bias", ".attn.masked_bias"};

}  // namespace

constexpr Architecture kGpt2 = {"gpt2", "gpt2", Gpt2FromHf, Gpt2FromGguf, Gpt2Weights, kGpt2Buffers};

}  // namespace quire::architectures
