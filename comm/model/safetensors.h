#pragma once

#include "comm/model/mapped_file.h"
#include "comm/model/tensor.h"

namespace quire {

/// The tensors of one safetensors file; the views live as long as `file`.
/// The header is checked whole before any view is made: size within the file and 100 MB, known dtypes, shapes whose
/// product does not overflow and matches the byte range, ranges that cover the data area without hole or overlap.
/// Throws Error naming the file and the tensor.
TensorMap ReadSafetensors(const MappedFile& file);

}  // namespace quire
