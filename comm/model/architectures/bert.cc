// BERT, ELECTRA and RoBERTa (XLM-RoBERTa, CamemBERT) have learned positions and token types. Each layer adds its
// outputs to the residual first, and then normalizes the residual (post-norm). All products and norms have biases.
// RoBERTa's positions begin after the row of its padding token. Classifiers made from RoBERTa and ELECTRA have a first
// layer of their own; those made from BERT use the pooler's layer.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

constexpr PooledHeadNames kBertHead = {.in = "bert.pooler.dense.weight",
                                       .in_bias = "bert.pooler.dense.bias",
                                       .out = kClassifier,
                                       .out_bias = kClassifierBias};
// Prefixes of ignored tensors: the heads for training, and the layer after pooling, which only classifiers use.
constexpr const char* kUnusedOfBert[] = {
    "cls.", "lm_head.", "pooler.", "bert.pooler.", "discriminator_predictions.", "generator_"};

ModelSpec BertFromHf(const HfConfig& config, int64_t first_position) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 512}, false);
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-12);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu");
  spec.token_types = config.Count("type_vocab_size", 2);
  spec.position = Position::kLearned;
  spec.position_offset = first_position;
  spec.max_position -= first_position;
  SetPostNormEncoder(spec);
  SetBiases(spec, true, true);
  if (const std::string kind = config.Text("position_embedding_type", "absolute"); kind != "absolute")
    Fail("{}: position_embedding_type = \"{}\" is not supported", config.path(), kind.substr(0, 100));
  if (config.Flag("is_decoder")) Fail("{}: is_decoder = true is not supported", config.path());
  if (Classifies(config)) {
    spec.pooled_head = {
        .outputs = LabelsOf(config), .inner = true, .inner_bias = true, .activation = HeadActivation::kTanh};
  }
  return spec;
}

ModelSpec PlainBertFromHf(const HfConfig& config) {
  const bool is_jinas = config.Text("position_embedding_type", "absolute") == "alibi";
  return is_jinas ? JinaBertFromHf(config) : BertFromHf(config, 0);
}

/// Reads GGUF files of BERT and RoBERTa, which have the same architecture name. GGUF files of RoBERTa omit the table
/// rows that no position uses.
ModelSpec BertFromGguf(const GgufConfig& config) {
  ModelSpec spec = PostNormEncoderFromGguf(config);
  spec.activation = Activation::kGelu;
  spec.position = Position::kLearned;
  return spec;
}

ModelSpec ElectraFromHf(const HfConfig& config) {
  ModelSpec spec = BertFromHf(config, 0);
  if (const int64_t size = config.Count("embedding_size", 128); size != spec.hidden_size) {
    Fail("{}: embedding_size = {} with a hidden_size of {} is not supported: both must be equal", config.path(), size,
         spec.hidden_size);
  }
  if (spec.pooled_head.outputs > 0) spec.pooled_head.activation = HeadActivation::kGelu;
  return spec;
}

ModelSpec RobertaFromHf(const HfConfig& config) {
  const int64_t padding = config.Count("pad_token_id", 1);
  if (padding < 0) Fail("{}: pad_token_id = {} is out of range", config.path(), padding);
  return BertFromHf(config, padding + 1);
}

/// Returns the weights under BERT's names. Files of RoBERTa and ELECTRA put "roberta." or "electra." in front of these
/// names (comm/model/model_files_names.cc).
std::vector<WeightSpec> EncoderWeights(const ModelSpec& spec, const PooledHeadNames& head) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = BertAttentionWeights();
  weights.insert(weights.end(), {{kPositions, "bert.embeddings.position_embeddings.weight", kPositionRows, kHidden},
                                 {kUp, "bert.encoder.layer.{}.intermediate.dense.weight", kMlp, kHidden},
                                 {kUpBias, "bert.encoder.layer.{}.intermediate.dense.bias", kMlp, kOne},
                                 {kDown, "bert.encoder.layer.{}.output.dense.weight", kHidden, kMlp},
                                 {kDownBias, "bert.encoder.layer.{}.output.dense.bias", kHidden, kOne},
                                 {kMlpNorm, "bert.encoder.layer.{}.output.LayerNorm.weight", kHidden, kOne},
                                 {kMlpNormBias, "bert.encoder.layer.{}.output.LayerNorm.bias", kHidden, kOne}});
  AddPooledHead(spec, head, weights);
  return WithGgufNames(std::move(weights));
}

std::vector<WeightSpec> BertWeights(const ModelSpec& spec) { return EncoderWeights(spec, kBertHead); }
std::vector<WeightSpec> RobertaWeights(const ModelSpec& spec) { return EncoderWeights(spec, kInnerClassifier); }

}  // namespace

constexpr Architecture Bert(const char* hf, ModelSpec (*from_hf)(const HfConfig&),
                            std::vector<WeightSpec> (*weights)(const ModelSpec&), const char* gguf = nullptr) {
  return {.hf = hf,
          .gguf = gguf,
          .from_hf = from_hf,
          .from_gguf = gguf == nullptr ? nullptr : BertFromGguf,
          .weights = weights,
          .hf_buffers = kPositionIds,
          .hf_unused = kUnusedOfBert};
}

constexpr Architecture kBert = Bert("bert", PlainBertFromHf, BertWeights, "bert");
constexpr Architecture kRoberta = Bert("roberta", RobertaFromHf, RobertaWeights);
constexpr Architecture kElectra = Bert("electra", ElectraFromHf, RobertaWeights);
constexpr Architecture kXlmRoberta = Bert("xlm-roberta", RobertaFromHf, RobertaWeights);
constexpr Architecture kCamembert = Bert("camembert", RobertaFromHf, RobertaWeights);

}  // namespace quire::architectures
