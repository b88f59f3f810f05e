// BLOOM has ALiBi and normalizes the embeddings. All products of attention and MLP have biases. Each head's queries,
// keys and values are adjacent in one tensor.
#include "comm/model/architectures/bloom.h"

#include "comm/model/architectures/all.h"
#include "comm/model/architectures/layer_norm_family.h"

namespace quire::architectures {

namespace {

constexpr WeightSpec kBloomTokenTable = {Role::kEmbedding, "transformer.word_embeddings.weight", Axis::kTokens,
                                         Axis::kHidden};

ModelSpec BloomFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config,
                                   {.hidden = {"n_embed", "hidden_size"},
                                    .layers = {"n_layer", "num_hidden_layers"},
                                    .heads = {"n_head", "num_attention_heads"},
                                    .max_position = {"seq_length"},
                                    .epsilon = "layer_norm_epsilon"},
                                   true);
  spec.SetAll(&LayerSpec::intermediate_size, 4 * spec.hidden_size);
  spec.activation = Activation::kGeluTanh;
  spec.position = Position::kAlibi;
  spec.embedding_norm = true;
  spec.fused_by_head = true;
  SetBiases(spec, true, true);
  return spec;
}

ModelSpec BloomFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGeluTanh;
  spec.position = Position::kAlibi;
  spec.embedding_norm = true;
  return spec;
}

std::vector<WeightSpec> NormedBloomWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = BloomWeights(spec);
  weights.insert(weights.begin() + 1,
                 {{kEmbeddingNorm, "transformer.word_embeddings_layernorm.weight", kHidden, kOne},
                  {kEmbeddingNormBias, "transformer.word_embeddings_layernorm.bias", kHidden, kOne}});
  return WithoutMissingBiases(spec, std::move(weights));
}

}  // namespace

std::vector<WeightSpec> BloomWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {kBloomTokenTable,
                                     {kAttentionOut, "transformer.h.{}.self_attention.dense.weight", kHidden, kQueries},
                                     {kAttentionOutBias, "transformer.h.{}.self_attention.dense.bias", kHidden, kOne},
                                     {kUp, "transformer.h.{}.mlp.dense_h_to_4h.weight", kMlp, kHidden},
                                     {kUpBias, "transformer.h.{}.mlp.dense_h_to_4h.bias", kMlp, kOne},
                                     {kDown, "transformer.h.{}.mlp.dense_4h_to_h.weight", kHidden, kMlp},
                                     {kDownBias, "transformer.h.{}.mlp.dense_4h_to_h.bias", kHidden, kOne}};
  if (!spec.parallel_block || spec.shared_norm) {
    weights.insert(weights.end(), {{kAttentionNorm, "transformer.h.{}.input_layernorm.weight", kHidden, kOne},
                                   {kAttentionNormBias, "transformer.h.{}.input_layernorm.bias", kHidden, kOne}});
  }
  if (!spec.parallel_block) {
    weights.insert(weights.end(), {{kMlpNorm, "transformer.h.{}.post_attention_layernorm.weight", kHidden, kOne},
                                   {kMlpNormBias, "transformer.h.{}.post_attention_layernorm.bias", kHidden, kOne}});
  }
  AddFusedQkv(spec, weights, "transformer.h.{}.self_attention.query_key_value.weight",
              "transformer.h.{}.self_attention.query_key_value.bias");
  weights.insert(weights.end(), {kTransformerFinalNorm, kTransformerFinalNormBias, HeadOf(spec, kBloomTokenTable)});
  return WithoutMissingBiases(spec, std::move(weights));
}

constexpr Architecture kBloom = {"bloom", "bloom", BloomFromHf, BloomFromGguf, NormedBloomWeights};

}  // namespace quire::architectures
