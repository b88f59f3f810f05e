#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "comm/base/number_type.h"

namespace quire {

/// Where a file has the integers of a matrix, each of 4 or 8 bits. A word holds as many neighbours as fit, of a row or
/// of a column; the first is in its lowest bits.
struct IntGrid {
  const std::byte* data = nullptr;  // little-endian words
  int bits = 8;
  int word_bytes = 4;        // 1 or 4
  bool along_rows = false;   // a word's neighbours are of one column; otherwise they are of one row
  int64_t row_stride = 0;    // words from a row, or from a word's rows, to the next
  int64_t col_stride = 0;    // words from a column, or from a word's columns, to the next
  bool evens_first = false;  // AWQ: a word of eight holds neighbours 0, 2, 4, 6, 1, 3, 5, 7
  uint8_t flip = 0;          // 0x80: signed bytes; what is read is 128 more than they say

  int per_word() const { return word_bytes * 8 / bits; }
};

/// Factors of a matrix: one for `row` (or for so many neighbouring rows) and each group of its columns.
struct ScaleGrid {
  NumberType type = NumberType::kF32;  // F32, F16 or BF16
  const std::byte* data = nullptr;
  int64_t row_stride = 0;  // numbers from a row, or from such rows, to the next; 0: all rows have the same
  int64_t group_stride = 0;
  int64_t rows_per_scale = 1;

  float At(int64_t row, int64_t group) const;
};

/// A matrix [rows, cols] of a quantised safetensors file, y = x * W^T:
///   value(row, col) = scale(row, group of col) * (number(row, col) - zero(row, group of col))
/// where the numbers are integers, whose zero is 8 or 128 in files that have none, or FP8 E4M3 without a zero.
/// Everything points into the mapped file and was checked against its size; Check() has yet to look at column_groups.
struct ScaledMatrix {
  int64_t rows = 0, cols = 0;
  IntGrid ints;                    // of integers
  const std::byte* fp8 = nullptr;  // of FP8: [rows, cols]; otherwise null
  ScaleGrid scales;
  IntGrid zeros;      // [rows, groups]; no data: `zero` alone
  int zero = 0;       // is added to those of the file: 1 of GPTQ's first version; without any: the zero of all
  int64_t group = 0;  // columns that share a scale
  /// Of act-order: int32 [cols], the group of each column; null: column / group.
  const std::byte* column_groups = nullptr;

  int64_t groups() const { return (cols + group - 1) / group; }
  int64_t GroupOf(int64_t col) const;
  /// Throws Error that begins with `what` when a column names a group that is none.
  void Check(const std::string& what) const;
  /// Whether groups are neighbouring columns, whatever column_groups says.
  bool InOrder() const;
  /// Integers as they are stored, without their zero, of `count` columns from `col` on.
  void Ints(int64_t row, int64_t col, int64_t count, uint8_t* out) const;
  int Zero(int64_t row, int64_t group) const;
  /// Values; each is a product that is rounded to fp32 once.
  void Decode(int64_t row, int64_t col, int64_t count, float* out) const;
};

/// The value of a byte of FP8 E4M3 (OCP: no infinities, 0x7f and 0xff are NaN).
float FromFp8(std::byte number);

}  // namespace quire
