#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "comm/model/formats/tensor.h"
#include "comm/topology/compute_settings.h"

namespace quire {

/// Rows of a matrix as a model's file has it, whether its scales lie beside it (ScaledMatrix) or not. `col` and `count`
/// must be multiples of DecodeBlock.
int64_t DecodeBlock(const Tensor& tensor);
/// Numbers [col, col + count) of a row as float.
void DecodeRow(const Tensor& tensor, int64_t row, int64_t col, int64_t count, float* out);

/// What --quantization makes of plain weights; nothing: they stay as they are.
std::optional<NumberType> TypeOfPlain(Quantization quantization);

/// What the CPU's products hold a matrix as.
struct PackedForm {
  NumberType type;
  const char* widened = nullptr;  // why that takes more than the file's bits; null: it does not
};

/// Of integers with a scale for each 32 columns or more:
///   4 bits become q4_0 where every zero is 8, else q4_1 with a minimum of -scale * zero; 8 bits become q8_0 where
///   every zero is 128. Integers stay as they are; scale and minimum are rounded to halves, as most files have the
///   scale.
/// Any other ScaledMatrix becomes float16: its values rounded once. All else: kernels::PackedType. Throws Error
/// beginning with `what` when columns name groups that are none.
PackedForm FormOf(const Tensor& tensor, const char* what);

/// Numbers [col, col + count) of a row in the type that FormOf has said, which is not the tensor's own. Both must be
/// multiples of the type's block, too.
void RecodeRow(const Tensor& tensor, NumberType type, int64_t row, int64_t col, int64_t count, std::byte* out);

}  // namespace quire
