#pragma once

#include <string>

#include "comm/model/formats/quantized_parts.h"
#include "comm/model/formats/stored_quants.h"

namespace quire {

/// Joins the parts of each quantised matrix of a safetensors model to one tensor NAME.weight. This tensor has a
/// ScaledMatrix unless the matrix is MXFP4. Removes the scales of activations. First checks the types and shapes of all
/// parts against each other. Reads only small parts, such as shapes, tables of numbers and global scales, but not the
/// matrices' numbers and scales. Throws Error, which begins with `path` and names the tensor, when a part is missing or
/// does not fit.
void JoinQuantized(TensorMap& tensors, const StoredQuants& quants, const std::string& path);

/// Each of these functions joins the matrices of one quantisation method.
void JoinGptq(QuantizedParts& parts, const StoredQuants& quants);
void JoinAwq(QuantizedParts& parts, const StoredQuants& quants);
void JoinFp8(QuantizedParts& parts, const StoredQuants& quants);
void JoinCompressedTensors(QuantizedParts& parts, const StoredQuants& quants);
void JoinModelOpt(QuantizedParts& parts, const StoredQuants& quants);
void JoinBitsAndBytes(QuantizedParts& parts);

/// The tensor with the number that scales all scales of an NVFP4 matrix.
struct GlobalScale {
  const char* part;
  bool divides;  // true: scales are divided by the number; false: multiplied
};

/// Joins the E2M1 codes MODULE.`part` [rows, cols / 2], with the first of two codes in a byte's low half, and the
/// scales MODULE.weight_scale to a matrix. With FP8 scales for 16 columns and a global scale the matrix is NVFP4; with
/// E8M0 scales for 32 columns it is MXFP4.
void JoinFp4(QuantizedParts& parts, const std::string& module, const char* part, const GlobalScale& global);

}  // namespace quire
