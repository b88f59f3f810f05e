#pragma once

#include <string>

#include "comm/model/formats/tensor.h"

namespace quire {

/// Joins MXFP4 matrices. Safetensors store one as two byte tensors, NAME_blocks [.., blocks, 16] and NAME_scales [..,
/// blocks]. Each pair becomes one tensor NAME [.., 32 * blocks] of kMxFp4Pairs. Throws Error with `path` and the tensor
/// when blocks lack scales or the shapes do not match. Removes all other byte tensors.
void JoinMxFp4(TensorMap& tensors, const std::string& path);

/// True for the names of tensors that JoinMxFp4 joins.
bool IsPartOfMxFp4(const std::string& name);

}  // namespace quire
