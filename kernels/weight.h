#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// The types that a weight can be stored as; those from kQ5_0 on are found in files only, and are packed as other ones
/// (PackedType).
constexpr bool IsWeightType(NumberType type) { return type <= NumberType::kMxFp4Pairs; }

/// Bytes of one row of `cols` numbers; cols must be a multiple of the type's block.
int64_t RowBytes(NumberType type, int64_t cols);

/// A row-major matrix [rows, cols] in storage of any type; rows are contiguous and row_bytes apart.
struct Weight {
  NumberType type = NumberType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;
  const std::byte* scales = nullptr;  // of mxfp4_pairs: [rows, cols / 32]
};

/// Writes numbers [col, col + count) of row `row` as float; exact for every type but for the one rounding of
/// d * q (+ m) to float. col and count must be multiples of the type's block.
void DecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out);

/// The type that a weight of a file is packed as: its own, q4_1 for q4_k, q8_0 for the other formats of files.
NumberType PackedType(NumberType stored);

/// Writes part of a row of a weight, whose type is not its own PackedType, as blocks of that; col and count must be
/// multiples of the weight's block. q5_0, iq4_nl and MXFP4 keep their numbers; q4_k and iq4_xs keep their integers,
/// scale and minimum of 32 numbers becoming halves; the others are rounded anew by EncodeRow.
void RecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, std::byte* out);

/// 32 numbers of at most six bits. q5_1 and q5_k: value = scales[0] * number + scales[1]; q6_k: value = (number - 32) *
/// scales[0] for the first 16, and scales[1] for the others. Scales are halves, as PutHalf leaves them.
struct SixBitBlock {
  std::byte scales[2][2];
  uint8_t numbers[32];
};

/// Reads part of a row of q5_1, q5_k or q6_k with its own integers; products of scales become halves. col and count
/// must be multiples of the weight's block.
void ReadSixBits(const Weight& weight, int64_t row, int64_t col, int64_t count, SixBitBlock* out);

/// Writes numbers as blocks of q8_0 (the largest of a block by its absolute value becomes 127) or q4_1 (from the least
/// to the largest, 0 to 15), each rounded to the nearest. count must be a multiple of the block.
void EncodeRow(NumberType type, const float* numbers, int64_t count, std::byte* out);

}  // namespace quire::kernels
