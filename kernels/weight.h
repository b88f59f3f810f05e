#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// Returns the bytes of a row of `cols` numbers; cols must be a multiple of the type's block.
int64_t RowBytes(NumberType type, int64_t cols);

/// A row-major matrix [rows, cols] of any weight type. Each row is contiguous; rows are row_bytes apart.
struct Weight {
  NumberType type = NumberType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;
  const std::byte* scales = nullptr;  // only for mxfp4_pairs: [rows, cols / 32]
};

/// Decodes numbers [col, col + count) of a row to float. Exact except for one rounding of d * q (+ m) to float. col
/// and count must be multiples of the type's block.
void DecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out);

/// The type in which a file's weight is packed: its own type; q4_1 for q4_k and iq1_s, q4_0 for tq1_0 and tq2_0, q8_0
/// for the other file-only types.
NumberType PackedType(NumberType stored);

/// Converts part of a row to blocks of PackedType, which must differ from the weight's type. The values of q5_0,
/// iq4_nl, tq1_0, tq2_0 and MXFP4 do not change. The integers of q4_k, iq1_s, iq3_xxs, iq3_s and iq4_xs do not change
/// either, but scale and minimum of each 32 numbers become fp16. Other types are rounded again by EncodeRow. col and
/// count must be multiples of the weight's block.
void RecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, std::byte* out);

/// 32 numbers of at most six bits. q5_1 and q5_k: value = scales[0] * number + scales[1]. q6_k: value = (number - 32)
/// * scales[0] for the first 16 numbers and * scales[1] for the others. Scales are fp16 as PutHalf stores them.
struct SixBitBlock {
  std::byte scales[2][2];
  uint8_t numbers[32];
};

/// Reads part of a row of q5_1, q5_k or q6_k with its own integers; products of scales are rounded to fp16. col and
/// count must be multiples of the weight's block.
void ReadSixBits(const Weight& weight, int64_t row, int64_t col, int64_t count, SixBitBlock* out);

/// Rounds numbers to blocks of q8_0 (the largest magnitude of a block becomes 127) or q4_1 (the range from smallest to
/// largest becomes 0 to 15). Rounds to nearest. count must be a multiple of the block.
void EncodeRow(NumberType type, const float* numbers, int64_t count, std::byte* out);

}  // namespace quire::kernels
