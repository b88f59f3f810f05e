#pragma once

#include "kernels/weight.h"

namespace quire::kernels {

/// Rows of a weight that are multiplied together: a multiple of the vector lanes of every instruction set.
inline constexpr int64_t kPanelRows = 16;
/// Consecutive numbers of a row that share a scale, in weights and in activations.
inline constexpr int64_t kQuantBlock = 32;

/// A weight matrix [rows, cols] in the order in which Matmul reads it: panels of kPanelRows rows, the last one padded
/// with zeros. A panel runs along the columns. For f32 and f16, a panel holds for each column the number of every row.
/// For bf16 it holds, for each two columns, the two numbers of every row; columns are padded with zeros to blocks of
/// 32. For q8_0, q4_0 and q4_1 it holds, for each block of 32 columns:
///   - fp16 d of every row; for q4_1 also fp16 m of every row;
///   - q8_0, plus 128 so that bytes are unsigned: for each eight columns, columns 0, 4, 1, 5 of every row, then columns
///     2, 6, 3, 7;
///   - q4_0 and q4_1: for each eight columns, two uint16 of every row. Bits 4 j to 4 j + 3 of the first are column 2 j,
///     of the second column 2 j + 1.
/// A shift and a mask thus give 16-bit integers of two neighbours, or bytes of columns 0, 4, 1, 5 and of 2, 6, 3, 7.
struct PackedWeight {
  NumberType type = NumberType::kF32;  // a type with PackedType(type) == type
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t num_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
};

/// Returns the bytes of one panel; cols must be a multiple of the type's block.
int64_t PanelBytes(NumberType type, int64_t cols);
int64_t PackedBytes(NumberType type, int64_t rows, int64_t cols);

/// Writes one panel from kPanelRows rows in Weight's layout, `cols` numbers each. A null pointer means a row of zeros.
void PackPanel(NumberType type, int64_t cols, const std::byte* const* rows, std::byte* out);

}  // namespace quire::kernels
