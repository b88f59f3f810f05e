#pragma once

#include <string>

#include "comm/model/formats/quantized_parts.h"
#include "comm/model/formats/stored_quants.h"

namespace quire {

/// Joins the parts of each quantised matrix of a safetensors model to one tensor NAME.weight with a ScaledMatrix, and
/// removes the scales of activations. Checks the types and shapes of all parts against each other first. Reads no
/// numbers of the parts except stored shapes and the first column's group in compressed-tensors. Throws Error, which
/// begins with `path` and names the tensor, when a part is missing or does not fit.
void JoinQuantized(TensorMap& tensors, const StoredQuants& quants, const std::string& path);

/// Each function joins the matrices of one quantisation method.
void JoinGptq(QuantizedParts& parts, const StoredQuants& quants);
void JoinAwq(QuantizedParts& parts, const StoredQuants& quants);
void JoinFp8(QuantizedParts& parts, const StoredQuants& quants);
void JoinCompressedTensors(QuantizedParts& parts, const StoredQuants& quants);

}  // namespace quire
