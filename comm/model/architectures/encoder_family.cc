#include "comm/model/architectures/encoder_family.h"

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire::architectures {

namespace {

constexpr const char* kGgufTokenTypes = "token_types.weight";

}  // namespace

void SetEncoder(ModelSpec& spec) {
  spec.bidirectional = true;
  spec.has_head = false;
  spec.tied_embeddings = false;
}

void SetPostNormEncoder(ModelSpec& spec) {
  spec.embedding_norm = true;
  spec.norms_before = false;
  spec.norms_sums = true;
  SetEncoder(spec);
}

ModelSpec PostNormEncoderFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.norm_bias = true;  // LayerNormFromGguf looks at the final norm, which these models lack
  const auto types = config.file().tensors.find(kGgufTokenTypes);
  if (types != config.file().tensors.end()) spec.token_types = types->second.rows();
  if (config.Flag("attention.causal", true)) Fail("{}: attention.causal must be false for an encoder", config.path());
  (void)config.Count("pooling_type", 0);  // the coordinator reads this key
  SetPostNormEncoder(spec);
  return spec;
}

std::vector<WeightSpec> WithGgufNames(std::vector<WeightSpec> weights) {
  for (WeightSpec& weight : weights) {
    if (weight.role == Role::kTokenTypes) weight.gguf = kGgufTokenTypes;
    if (weight.role == Role::kAttentionNorm) weight.gguf = "blk.{}.attn_output_norm.weight";
    if (weight.role == Role::kAttentionNormBias) weight.gguf = "blk.{}.attn_output_norm.bias";
    if (weight.role == Role::kMlpNorm) weight.gguf = "blk.{}.layer_output_norm.weight";
    if (weight.role == Role::kMlpNormBias) weight.gguf = "blk.{}.layer_output_norm.bias";
  }
  return weights;
}

std::vector<WeightSpec> BertAttentionWeights() {
  using enum Role;
  using enum Axis;
  return {{kEmbedding, kBertTokens, kTokens, kHidden},
          {kTokenTypes, kBertTypes, kTypes, kHidden},
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
          {kAttentionNormBias, "bert.encoder.layer.{}.attention.output.LayerNorm.bias", kHidden, kOne}};
}

bool Classifies(const HfConfig& config) {
  const std::vector<std::string> names = config.Texts("architectures");
  return !names.empty() && names.front().ends_with("ForSequenceClassification");
}

int64_t LabelsOf(const HfConfig& config) {
  if (config.Has("id2label")) {
    const Json& labels = config.At("id2label");
    if (!labels.is_object()) Fail("{}: id2label must be an object", config.path());
    return static_cast<int64_t>(labels.size());
  }
  return config.Count("num_labels", 2);
}

void AddPooledHead(const ModelSpec& spec, const PooledHeadNames& names, std::vector<WeightSpec>& weights) {
  const PooledHead& head = spec.pooled_head;
  const auto add = [&](bool wanted, Role role, const char* name, Axis rows, Axis cols = Axis::kOne) {
    if (wanted) weights.push_back({role, name, rows, cols});
  };
  add(head.inner, Role::kPooledIn, names.in, Axis::kHidden, Axis::kHidden);
  add(head.inner_bias, Role::kPooledInBias, names.in_bias, Axis::kHidden);
  add(head.norm, Role::kPooledNorm, names.norm, Axis::kHidden);
  add(head.norm_bias, Role::kPooledNormBias, names.norm_bias, Axis::kHidden);
  add(head.outputs > 0, Role::kPooledOut, names.out, Axis::kOutputs, Axis::kHidden);
  add(head.outputs > 0, Role::kPooledOutBias, names.out_bias, Axis::kOutputs);
  add(head.sparse, Role::kSparse, kSparseLayer, Axis::kOne, Axis::kHidden);
  add(head.sparse, Role::kSparseBias, kSparseLayerBias, Axis::kOne);
  add(head.colbert > 0, Role::kColbert, kColbertLayer, Axis::kColbertDims, Axis::kHidden);
  add(head.colbert > 0, Role::kColbertBias, kColbertLayerBias, Axis::kColbertDims);
}

}  // namespace quire::architectures
