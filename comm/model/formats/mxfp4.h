#pragma once

#include <string>

#include "comm/model/formats/tensor.h"

namespace quire {

/// Joins MXFP4 matrices. Safetensors files have two byte tensors for a matrix, NAME_blocks [.., blocks, 16] and
/// NAME_scales [.., blocks]. Each pair becomes one tensor NAME [.., 32 * blocks] of kMxFp4Pairs. Throws Error, which
/// names `path` and the tensor, when blocks lack scales or the shapes do not match.
void JoinMxFp4(TensorMap& tensors, const std::string& path);

/// Removes byte tensors that became no part of a matrix, such as attention masks in older files. Weights stay, so that
/// the model refuses them.
void DropMasks(TensorMap& tensors);

}  // namespace quire
