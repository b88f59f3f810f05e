#pragma once

#include <span>
#include <string>

#include "comm/model/formats/tensor.h"

namespace quire {

/// Reads the tensors of a safetensors file as views of `bytes`. `path` is for error messages. Checks the whole header
/// first: its size, the dtypes, and the shapes, whose products must match the byte ranges. The byte ranges must cover
/// the data without gaps or overlaps. Throws Error with the file and the tensor.
TensorMap ReadSafetensors(std::span<const std::byte> bytes, const std::string& path);

}  // namespace quire
