#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "comm/base/number_type.h"

namespace quire {

/// Where a matrix's integers of 4 or 8 bits are in a file. A word holds as many neighbouring integers of a row or of a
/// column as fit, the first in its lowest bits.
struct IntGrid {
  const std::byte* data = nullptr;  // little-endian words
  int bits = 8;
  int word_bytes = 4;        // 1 or 4
  bool along_rows = false;   // true: a word's neighbours are in one column; false: in one row
  int64_t row_stride = 0;    // words from one row (or row of words) to the next
  int64_t col_stride = 0;    // words from one column (or column of words) to the next
  bool evens_first = false;  // AWQ: a word of eight holds neighbours 0, 2, 4, 6, 1, 3, 5, 7
  uint8_t flip = 0;          // 0x80: stored bytes are signed and are read plus 128; 0: unchanged

  int per_word() const { return word_bytes * 8 / bits; }
};

/// The meaning of a stored scale.
enum class ScaleForm : uint8_t {
  kNumber,      // a number of ScaleGrid::type: F32, F16, BF16 or FP8 E4M3
  kPowerOfTwo,  // E8M0: a byte e is 2^(e - 127), and 255 is NaN
  kNested,      // bitsandbytes' double quantisation: a byte is the index of a number, and the number has a scale
};

/// The scales of a matrix: one for each row (or each `rows_per_scale` rows) and each group of columns.
struct ScaleGrid {
  NumberType type = NumberType::kF32;  // kU8 for forms that store bytes
  const std::byte* data = nullptr;
  int64_t row_stride = 0;  // numbers between rows of scales; 0: all rows share one row of scales
  int64_t group_stride = 0;
  int64_t rows_per_scale = 1;
  ScaleForm form = ScaleForm::kNumber;
  float factor = 1;  // multiplies all scales
  // For kNested, scale number i is numbers[byte i] * outer[i / outer_block] + offset. `numbers` has 256 F32 numbers;
  // `outer` has F32 numbers, too.
  const std::byte *numbers = nullptr, *outer = nullptr;
  int64_t outer_block = 0;
  float offset = 0;

  float At(int64_t row, int64_t group) const;
};

/// A matrix [rows, cols] of a quantised safetensors file, used as y = x * W^T:
///  value(row, col) = scale(row, group of col) * (number(row, col) - zero(row, group of col))
/// The numbers are integers, FP8 E4M3 or 4-bit codes for the numbers of a table. An integer's zero is 8 or 128 when the
/// file has no zeros; FP8 and codes have no zero. All pointers point into the mapped file and were checked against its
/// size. The groups that column_groups names are not checked before Check().
struct ScaledMatrix {
  int64_t rows = 0, cols = 0;
  IntGrid ints;                    // for integers
  const std::byte* fp8 = nullptr;  // for FP8: [rows, cols]; otherwise null
  // For codes: [rows, cols] without gaps, two codes in a byte; null when the numbers are no codes. high_first: the
  // first code is in the high half, not in the low half.
  const std::byte* codes = nullptr;
  bool high_first = false;
  std::array<float, 16> code_numbers{};
  ScaleGrid scales;
  IntGrid zeros;      // [rows, groups]; if it has no data, `zero` is the zero of all groups
  int zero = 0;       // added to the file's zeros (1 for GPTQ's first version); without such zeros: every group's zero
  int64_t group = 0;  // number of columns that share a scale
  /// For codes: each `group` numbers in row-major order share a scale, also across rows, and `scales` has one row.
  bool flat = false;
  /// For act-order: int32 [cols] with each column's group. Null: the group is column / group.
  const std::byte* column_groups = nullptr;

  int64_t groups() const { return (cols + group - 1) / group; }
  int64_t GroupOf(int64_t col) const;
  /// Throws Error, which begins with `what`, when a column's group does not exist.
  void Check(const std::string& what) const;
  /// True when each group is a run of neighbouring columns, which is possible even if column_groups is set.
  bool InOrder() const;
  /// Reads the stored integers of `count` columns from `col` on, without subtracting their zeros.
  void Ints(int64_t row, int64_t col, int64_t count, uint8_t* out) const;
  int Zero(int64_t row, int64_t group) const;
  /// Computes the values of `count` columns from `col` on. Each value is the product of a scale and a number (without
  /// its zero), rounded once to fp32.
  void Decode(int64_t row, int64_t col, int64_t count, float* out) const;

 private:
  void DecodeCodes(int64_t row, int64_t col, int64_t count, float* out) const;
};

/// Decodes a byte of FP8 E4M3 (OCP: no infinities; 0x7f and 0xff are NaN).
float FromFp8(std::byte number);

}  // namespace quire
