#pragma once

#include <span>
#include <string>

#include "comm/model/formats/tensor.h"

namespace quire {

/// The tensors of one safetensors file; they are views of `bytes`. `path` is for error messages.
/// The header is checked whole before any view is made: size within the file and 100 MB, known dtypes, shapes whose
/// product does not overflow and matches the byte range, ranges that cover the data area without hole or overlap.
/// Throws Error naming the file and the tensor.
TensorMap ReadSafetensors(std::span<const std::byte> bytes, const std::string& path);

}  // namespace quire
