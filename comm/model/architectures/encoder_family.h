#pragma once

#include "comm/model/architecture.h"
#include "comm/model/architectures/layer_norm_family.h"

// Common parts of encoders: models whose tokens see each other in both directions, and that have no output head.
namespace quire::architectures {

/// Sets the settings that all encoders share: no output head, and tokens that see later tokens.
void SetEncoder(ModelSpec& spec);

/// True when config.json names a class that scores pairs of texts or classes of texts. Such a class has layers after
/// pooling, which the caller describes.
bool Classifies(const HfConfig& config);

/// Returns the number of a classifier's scores, as HF counts them: the labels of id2label, or num_labels, or 2.
int64_t LabelsOf(const HfConfig& config);

inline constexpr const char *kClassifier = "classifier.weight", *kClassifierBias = "classifier.bias";

/// Names of the layers after pooling in safetensors. Layers that a family never has need no name.
struct PooledHeadNames {
  const char *in = nullptr, *in_bias = nullptr, *norm = nullptr, *norm_bias = nullptr, *out = nullptr,
             *out_bias = nullptr;
};
/// Appends the layers after pooling that the model has.
void AddPooledHead(const ModelSpec& spec, const PooledHeadNames& names, std::vector<WeightSpec>& weights);

}  // namespace quire::architectures
