#pragma once

#include <string>

#include "comm/model/formats/tensor.h"

namespace quire {

/// Safetensors have a matrix in MXFP4 as two tensors of bytes, NAME_blocks [.., blocks, 16] and NAME_scales [..,
/// blocks]: each pair becomes one tensor NAME [.., 32 * blocks] of kMxFp4Pairs. Throws Error naming the tensor where
/// blocks are without scales or their shapes differ; `path` is for that. Other tensors of bytes go.
void JoinMxFp4(TensorMap& tensors, const std::string& path);

/// True of names that tensors of bytes have which JoinMxFp4 joins.
bool IsPartOfMxFp4(const std::string& name);

}  // namespace quire
