#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/model/formats/tensor.h"
#include "comm/model/model_spec.h"
#include "comm/model/weight_spec.h"

// Prediction layers (multi-token prediction, MTP). Some models' files have them after the model's own layers. Such a
// layer predicts further tokens from the model's last hidden states (ModelSpec::predicts).
namespace quire::architectures {

/// True for a tensor of a prediction layer. `spec` describes the model to which the prediction layer belongs.
bool IsOfPrediction(const ModelSpec& spec, std::string_view tensor_name, Naming naming);

/// Returns the bytes of all tensors of prediction layers.
int64_t PredictionBytes(const ModelSpec& spec, const TensorMap& tensors, Naming naming);

/// Adds the weights that a prediction layer (ModelSpec::predicts) has besides the usual weights of a decoder layer.
void AddPredictionWeights(std::vector<WeightSpec>& weights);

/// Turns the spec and tensors of a model into those of its first prediction layer, with the model's embedding and head.
/// The tensors get the names in the family's list of weights; all other tensors are removed. Throws Error, which begins
/// with `path`, when the files have no prediction layer of a known form.
void TakePredictionLayer(Naming naming, const std::string& path, TensorMap& tensors, ModelSpec& spec);

}  // namespace quire::architectures
