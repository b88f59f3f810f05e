// DistilBERT is BERT without token types. It has half of BERT's layers and other tensor names.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

// Prefixes of ignored tensors: the heads for training.
constexpr const char* kUnusedOfDistilBert[] = {"vocab_", "qa_outputs."};

ModelSpec DistilBertFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config,
                                   {.hidden = {"dim", "hidden_size"},
                                    .layers = {"n_layers", "num_hidden_layers"},
                                    .heads = {"n_heads", "num_attention_heads"},
                                    .max_position_otherwise = 512},
                                   false);
  spec.norm_epsilon = 1e-12;  // HF's class has no setting for the epsilon
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("hidden_dim"));
  spec.activation = ActivationFromHf(config, "activation", "gelu");
  spec.position = Position::kLearned;
  SetPostNormEncoder(spec);
  SetBiases(spec, true, true);
  if (Classifies(config)) {
    spec.pooled_head = {
        .outputs = LabelsOf(config), .inner = true, .inner_bias = true, .activation = HeadActivation::kRelu};
  }
  return spec;
}

std::vector<WeightSpec> DistilBertWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {
      {kEmbedding, "distilbert.embeddings.word_embeddings.weight", kTokens, kHidden},
      {kPositions, "distilbert.embeddings.position_embeddings.weight", kPositionRows, kHidden},
      {kEmbeddingNorm, "distilbert.embeddings.LayerNorm.weight", kHidden, kOne},
      {kEmbeddingNormBias, "distilbert.embeddings.LayerNorm.bias", kHidden, kOne},
      {kQuery, "distilbert.transformer.layer.{}.attention.q_lin.weight", kQueries, kHidden},
      {kQueryBias, "distilbert.transformer.layer.{}.attention.q_lin.bias", kQueries, kOne},
      {kKey, "distilbert.transformer.layer.{}.attention.k_lin.weight", kKeyValues, kHidden},
      {kKeyBias, "distilbert.transformer.layer.{}.attention.k_lin.bias", kKeyValues, kOne},
      {kValue, "distilbert.transformer.layer.{}.attention.v_lin.weight", kKeyValues, kHidden},
      {kValueBias, "distilbert.transformer.layer.{}.attention.v_lin.bias", kKeyValues, kOne},
      {kAttentionOut, "distilbert.transformer.layer.{}.attention.out_lin.weight", kHidden, kQueries},
      {kAttentionOutBias, "distilbert.transformer.layer.{}.attention.out_lin.bias", kHidden, kOne},
      {kAttentionNorm, "distilbert.transformer.layer.{}.sa_layer_norm.weight", kHidden, kOne},
      {kAttentionNormBias, "distilbert.transformer.layer.{}.sa_layer_norm.bias", kHidden, kOne},
      {kUp, "distilbert.transformer.layer.{}.ffn.lin1.weight", kMlp, kHidden},
      {kUpBias, "distilbert.transformer.layer.{}.ffn.lin1.bias", kMlp, kOne},
      {kDown, "distilbert.transformer.layer.{}.ffn.lin2.weight", kHidden, kMlp},
      {kDownBias, "distilbert.transformer.layer.{}.ffn.lin2.bias", kHidden, kOne},
      {kMlpNorm, "distilbert.transformer.layer.{}.output_layer_norm.weight", kHidden, kOne},
      {kMlpNormBias, "distilbert.transformer.layer.{}.output_layer_norm.bias", kHidden, kOne}};
  AddPooledHead(spec,
                {.in = "pre_classifier.weight",
                 .in_bias = "pre_classifier.bias",
                 .out = kClassifier,
                 .out_bias = kClassifierBias},
                weights);
  return weights;
}

}  // namespace

constexpr Architecture kDistilBert = {.hf = "distilbert",
                                      .gguf = nullptr,
                                      .from_hf = DistilBertFromHf,
                                      .from_gguf = nullptr,
                                      .weights = DistilBertWeights,
                                      .hf_buffers = kPositionIds,
                                      .hf_unused = kUnusedOfDistilBert};

}  // namespace quire::architectures
