#pragma once

#include "comm/model/architecture.h"
#include "comm/model/architectures/layer_norm_family.h"

// Common parts of encoders. In an encoder, tokens see each other in both directions, and there is no output head.
namespace quire::architectures {

/// Sets the settings that all encoders share: no output head, and tokens that see later tokens.
void SetEncoder(ModelSpec& spec);

/// Does what SetEncoder does, and sets what models like BERT have in common: embeddings are normalized, and each layer
/// normalizes the residual after it has added an output to it (post-norm).
void SetPostNormEncoder(ModelSpec& spec);

/// Ends of names of tensors that older files have besides the weights. Such a tensor contains only the numbers 0, 1, 2,
/// ... or only zeros.
inline constexpr const char* kPositionIds[] = {"embeddings.position_ids", "embeddings.token_type_ids"};

inline constexpr const char *kBertTokens = "bert.embeddings.word_embeddings.weight",
                            *kBertTypes = "bert.embeddings.token_type_embeddings.weight";
/// Returns the weights of BERT's embeddings (with token types, without positions) and of its attention, under the names
/// of BERT's files.
std::vector<WeightSpec> BertAttentionWeights();

/// Reads an encoder like BERT from a GGUF file, except its positions and activation. Throws Error when the file's
/// tokens see only earlier tokens.
ModelSpec PostNormEncoderFromGguf(const GgufConfig& config);

/// Gives token types and norms the names that GGUF files of models like BERT use.
std::vector<WeightSpec> WithGgufNames(std::vector<WeightSpec> weights);

/// Returns the weights of NomicBERT. Jina v3 uses some of the same names.
std::vector<WeightSpec> NomicBertWeights(const ModelSpec& spec);

/// True when config.json names a class that scores pairs of texts, or that classifies texts. Such a class has layers
/// after pooling, which the caller describes.
bool Classifies(const HfConfig& config);

/// Returns the number of a classifier's scores, as HF counts them: the number of labels in id2label, or num_labels, or
/// 2.
int64_t LabelsOf(const HfConfig& config);

inline constexpr const char *kClassifier = "classifier.weight", *kClassifierBias = "classifier.bias";

// Names of the tensors of two layers of bge-m3 that are applied to every token's output row. The part before the dot is
// the name of the layer's file without its extension; the part after the dot is the tensor's name in that file.
inline constexpr const char *kSparseLayer = "sparse_linear.weight", *kSparseLayerBias = "sparse_linear.bias",
                            *kColbertLayer = "colbert_linear.weight", *kColbertLayerBias = "colbert_linear.bias";

/// Names of the layers after pooling in safetensors. Layers that a family never has need no name.
struct PooledHeadNames {
  const char *in = nullptr, *in_bias = nullptr, *norm = nullptr, *norm_bias = nullptr, *out = nullptr,
             *out_bias = nullptr;
};
/// The weight names of the layers after pooling that RoBERTa, ELECTRA and MPNet use.
inline constexpr PooledHeadNames kInnerClassifier = {.in = "classifier.dense.weight",
                                                     .in_bias = "classifier.dense.bias",
                                                     .out = "classifier.out_proj.weight",
                                                     .out_bias = "classifier.out_proj.bias"};
/// Appends to `weights` the weights of the model's layers after pooling, and those of the layers that the model applies
/// to every token's output.
void AddPooledHead(const ModelSpec& spec, const PooledHeadNames& names, std::vector<WeightSpec>& weights);

}  // namespace quire::architectures
