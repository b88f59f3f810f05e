#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "comm/model/formats/tensor.h"
#include "comm/topology/compute_settings.h"

namespace quire {

/// Returns the number of columns in a block of the tensor. `col` and `count` below must be multiples of this number.
/// The functions in this file read a matrix as the model's file stores it, with scales beside it (ScaledMatrix) or
/// without.
int64_t DecodeBlock(const Tensor& tensor);
/// Decodes numbers [col, col + count) of a row to float.
void DecodeRow(const Tensor& tensor, int64_t row, int64_t col, int64_t count, float* out);

/// Returns the type to which --quantization converts plain weights; nullopt: plain weights keep their type.
std::optional<NumberType> TypeOfPlain(Quantization quantization);

/// The type in which the CPU's products use a matrix.
struct PackedForm {
  NumberType type;
  const char* widened = nullptr;  // the reason why this type takes more bits than the file's type; null: no more
};

/// Chooses the packed type of a matrix. Integers with one scale for at least 32 columns stay exact: 4-bit integers
/// become q4_0 if every zero is 8, otherwise q4_1 with a minimum of -scale * zero; 8-bit integers become q8_0 if every
/// zero is 128. Scale and minimum are rounded to float16, the type that most files use for scales. Any other
/// ScaledMatrix becomes float16, each value rounded once. A plain matrix gets kernels::PackedType. Throws Error, which
/// begins with `what`, when columns name groups that do not exist.
PackedForm FormOf(const Tensor& tensor, const char* what);

/// Converts numbers [col, col + count) of a row to `type`, the result of FormOf, which differs from the tensor's
/// own type. `col` and `count` must also be multiples of the block of `type`.
void RecodeRow(const Tensor& tensor, NumberType type, int64_t row, int64_t col, int64_t count, std::byte* out);

}  // namespace quire
