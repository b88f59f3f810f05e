#pragma once

#include <string>

#include "comm/model/formats/quantized_parts.h"
#include "comm/model/formats/stored_quants.h"

namespace quire {

/// Of a quantised safetensors model, makes one tensor NAME.weight with a ScaledMatrix of the parts that each quantised
/// matrix has, and takes out the scales of activations. Types and shapes of all parts are checked against each other
/// first; none of their numbers is read but shapes and the first column's group of compressed-tensors. Throws Error
/// beginning with `path` and naming the tensor.
void JoinQuantized(TensorMap& tensors, const StoredQuants& quants, const std::string& path);

/// One method each.
void JoinGptq(QuantizedParts& parts, const StoredQuants& quants);
void JoinAwq(QuantizedParts& parts, const StoredQuants& quants);
void JoinFp8(QuantizedParts& parts, const StoredQuants& quants);
void JoinCompressedTensors(QuantizedParts& parts, const StoredQuants& quants);

}  // namespace quire
