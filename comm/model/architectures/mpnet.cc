// MPNet (all-mpnet-base-v2) is BERT without token types. Its attention scores also depend on the distance between query
// and key, through a table that all layers share. The learned positions begin at the third row of their table.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

constexpr int64_t kFirstPosition = 2;  // HF uses 2 whatever pad_token_id is
// Prefixes of ignored tensors: the heads for training, and the layer after pooling.
constexpr const char* kUnusedOfMpNet[] = {"lm_head.", "mpnet.pooler.", "pooler.", "qa_outputs."};

ModelSpec MpNetFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 512}, false);
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-12);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu");
  spec.position = Position::kLearned;
  spec.position_offset = kFirstPosition;
  spec.max_position -= kFirstPosition;
  spec.relative_bias = {.buckets = config.Count("relative_attention_num_buckets", 32)};
  SetPostNormEncoder(spec);
  SetBiases(spec, true, true);
  if (Classifies(config)) {
    spec.pooled_head = {
        .outputs = LabelsOf(config), .inner = true, .inner_bias = true, .activation = HeadActivation::kTanh};
  }
  return spec;
}

std::vector<WeightSpec> MpNetWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {
      {kEmbedding, "mpnet.embeddings.word_embeddings.weight", kTokens, kHidden},
      {kPositions, "mpnet.embeddings.position_embeddings.weight", kPositionRows, kHidden},
      {kEmbeddingNorm, "mpnet.embeddings.LayerNorm.weight", kHidden, kOne},
      {kEmbeddingNormBias, "mpnet.embeddings.LayerNorm.bias", kHidden, kOne},
      {kRelativeBias, "mpnet.encoder.relative_attention_bias.weight", kBuckets, kHeads},
      {kQuery, "mpnet.encoder.layer.{}.attention.attn.q.weight", kQueries, kHidden},
      {kQueryBias, "mpnet.encoder.layer.{}.attention.attn.q.bias", kQueries, kOne},
      {kKey, "mpnet.encoder.layer.{}.attention.attn.k.weight", kKeyValues, kHidden},
      {kKeyBias, "mpnet.encoder.layer.{}.attention.attn.k.bias", kKeyValues, kOne},
      {kValue, "mpnet.encoder.layer.{}.attention.attn.v.weight", kKeyValues, kHidden},
      {kValueBias, "mpnet.encoder.layer.{}.attention.attn.v.bias", kKeyValues, kOne},
      {kAttentionOut, "mpnet.encoder.layer.{}.attention.attn.o.weight", kHidden, kQueries},
      {kAttentionOutBias, "mpnet.encoder.layer.{}.attention.attn.o.bias", kHidden, kOne},
      {kAttentionNorm, "mpnet.encoder.layer.{}.attention.LayerNorm.weight", kHidden, kOne},
      {kAttentionNormBias, "mpnet.encoder.layer.{}.attention.LayerNorm.bias", kHidden, kOne},
      {kUp, "mpnet.encoder.layer.{}.intermediate.dense.weight", kMlp, kHidden},
      {kUpBias, "mpnet.encoder.layer.{}.intermediate.dense.bias", kMlp, kOne},
      {kDown, "mpnet.encoder.layer.{}.output.dense.weight", kHidden, kMlp},
      {kDownBias, "mpnet.encoder.layer.{}.output.dense.bias", kHidden, kOne},
      {kMlpNorm, "mpnet.encoder.layer.{}.output.LayerNorm.weight", kHidden, kOne},
      {kMlpNormBias, "mpnet.encoder.layer.{}.output.LayerNorm.bias", kHidden, kOne}};
  AddPooledHead(spec, kInnerClassifier, weights);
  return weights;
}

}  // namespace

constexpr Architecture kMpNet = {.hf = "mpnet",
                                 .gguf = nullptr,
                                 .from_hf = MpNetFromHf,
                                 .from_gguf = nullptr,
                                 .weights = MpNetWeights,
                                 .hf_buffers = kPositionIds,
                                 .hf_unused = kUnusedOfMpNet};

}  // namespace quire::architectures
