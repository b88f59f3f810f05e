// BERT and RoBERTa (XLM-RoBERTa, CamemBERT): learned positions, token types, norms of sums, and biases everywhere.
// RoBERTa's positions begin behind the row of its padding token, and its classifier has its own first layer.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

constexpr PooledHeadNames kBertHead = {.in = "bert.pooler.dense.weight",
                                       .in_bias = "bert.pooler.dense.bias",
                                       .out = kClassifier,
                                       .out_bias = kClassifierBias};
constexpr PooledHeadNames kRobertaHead = {.in = "classifier.dense.weight",
                                          .in_bias = "classifier.dense.bias",
                                          .out = "classifier.out_proj.weight",
                                          .out_bias = "classifier.out_proj.bias"};

constexpr const char* kBertBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids"};
// Prefixes of ignored tensors: the heads for training, and the layer after pooling of models that are no classifiers.
constexpr const char* kUnusedOfBert[] = {"cls.", "lm_head.", "pooler.", "bert.pooler."};

ModelSpec BertFromHf(const HfConfig& config, int64_t first_position) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 512}, false);
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-12);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu");
  spec.token_types = config.Count("type_vocab_size", 2);
  spec.position = Position::kLearned;
  spec.position_offset = first_position;
  spec.max_position -= first_position;
  spec.embedding_norm = true;
  spec.norms_before = false;
  spec.norms_sums = true;
  SetBiases(spec, true, true);
  SetEncoder(spec);
  if (const std::string kind = config.Text("position_embedding_type", "absolute"); kind != "absolute")
    Fail("{}: position_embedding_type = \"{}\" is not supported", config.path(), kind.substr(0, 100));
  if (config.Flag("is_decoder")) Fail("{}: is_decoder = true is not supported", config.path());
  if (Classifies(config)) {
    spec.pooled_head = {
        .outputs = LabelsOf(config), .inner = true, .inner_bias = true, .activation = HeadActivation::kTanh};
  }
  return spec;
}

ModelSpec PlainBertFromHf(const HfConfig& config) { return BertFromHf(config, 0); }

ModelSpec RobertaFromHf(const HfConfig& config) {
  const int64_t padding = config.Count("pad_token_id", 1);
  if (padding < 0) Fail("{}: pad_token_id = {} is out of range", config.path(), padding);
  return BertFromHf(config, padding + 1);
}

/// Returns the weights of BERT and RoBERTa, under BERT's names. RoBERTa's files put "roberta." in front of these names
/// (comm/model/model_files_names.cc).
std::vector<WeightSpec> EncoderWeights(const ModelSpec& spec, const PooledHeadNames& head) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {
      {kEmbedding, "bert.embeddings.word_embeddings.weight", kTokens, kHidden},
      {kPositions, "bert.embeddings.position_embeddings.weight", kPositionRows, kHidden},
      {kTokenTypes, "bert.embeddings.token_type_embeddings.weight", kTypes, kHidden},
      {kEmbeddingNorm, "bert.embeddings.LayerNorm.weight", kHidden, kOne},
      {kEmbeddingNormBias, "bert.embeddings.LayerNorm.bias", kHidden, kOne},
      {kQuery, "bert.encoder.layer.{}.attention.self.query.weight", kQueries, kHidden},
      {kQueryBias, "bert.encoder.layer.{}.attention.self.query.bias", kQueries, kOne},
      {kKey, "bert.encoder.layer.{}.attention.self.key.weight", kKeyValues, kHidden},
      {kKeyBias, "bert.encoder.layer.{}.attention.self.key.bias", kKeyValues, kOne},
      {kValue, "bert.encoder.layer.{}.attention.self.value.weight", kKeyValues, kHidden},
      {kValueBias, "bert.encoder.layer.{}.attention.self.value.bias", kKeyValues, kOne},
      {kAttentionOut, "bert.encoder.layer.{}.attention.output.dense.weight", kHidden, kQueries},
      {kAttentionOutBias, "bert.encoder.layer.{}.attention.output.dense.bias", kHidden, kOne},
      {kAttentionNorm, "bert.encoder.layer.{}.attention.output.LayerNorm.weight", kHidden, kOne},
      {kAttentionNormBias, "bert.encoder.layer.{}.attention.output.LayerNorm.bias", kHidden, kOne},
      {kUp, "bert.encoder.layer.{}.intermediate.dense.weight", kMlp, kHidden},
      {kUpBias, "bert.encoder.layer.{}.intermediate.dense.bias", kMlp, kOne},
      {kDown, "bert.encoder.layer.{}.output.dense.weight", kHidden, kMlp},
      {kDownBias, "bert.encoder.layer.{}.output.dense.bias", kHidden, kOne},
      {kMlpNorm, "bert.encoder.layer.{}.output.LayerNorm.weight", kHidden, kOne},
      {kMlpNormBias, "bert.encoder.layer.{}.output.LayerNorm.bias", kHidden, kOne}};
  AddPooledHead(spec, head, weights);
  return weights;
}

std::vector<WeightSpec> BertWeights(const ModelSpec& spec) { return EncoderWeights(spec, kBertHead); }
std::vector<WeightSpec> RobertaWeights(const ModelSpec& spec) { return EncoderWeights(spec, kRobertaHead); }

}  // namespace

constexpr Architecture Bert(const char* hf, ModelSpec (*from_hf)(const HfConfig&),
                            std::vector<WeightSpec> (*weights)(const ModelSpec&)) {
  return {.hf = hf,
          .gguf = nullptr,
          .from_hf = from_hf,
          .from_gguf = nullptr,
          .weights = weights,
          .hf_buffers = kBertBuffers,
          .hf_unused = kUnusedOfBert};
}

constexpr Architecture kBert = Bert("bert", PlainBertFromHf, BertWeights);
constexpr Architecture kRoberta = Bert("roberta", RobertaFromHf, RobertaWeights);
constexpr Architecture kXlmRoberta = Bert("xlm-roberta", RobertaFromHf, RobertaWeights);
constexpr Architecture kCamembert = Bert("camembert", RobertaFromHf, RobertaWeights);

}  // namespace quire::architectures
