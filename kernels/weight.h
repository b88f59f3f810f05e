#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels {

/// How the numbers of a weight matrix are stored. Blocks of the q* types hold 32 numbers along a row:
///   q8_0: fp16 d, 32 x int8 q                       value = d * q
///   q4_0: fp16 d, 16 bytes of nibbles                value = d * (q - 8)
///   q4_1: fp16 d, fp16 m, 16 bytes of nibbles        value = d * q + m
/// Byte i of the nibbles holds number i in its low half and number i + 16 in its high half (GGUF's layout).
enum class WeightType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1 };

/// Numbers per quantisation block (1 for plain types) and bytes per block.
struct WeightLayout {
  int block_numbers;
  int block_bytes;
};
WeightLayout LayoutOf(WeightType type);

/// Bytes of one row of `cols` numbers; cols must be a multiple of the type's block.
int64_t RowBytes(WeightType type, int64_t cols);

/// A row-major matrix [rows, cols] in storage of any type; rows are contiguous and row_bytes apart.
struct Weight {
  WeightType type = WeightType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;
};

/// Writes numbers [col, col + count) of row `row` as float; exact for every type but for the one rounding of
/// d * q (+ m) to float. col and count must be multiples of the type's block.
void DecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out);

/// Writes numbers as blocks of q8_0 (the largest of a block by its absolute value becomes 127) or q4_1 (from the least
/// to the largest, 0 to 15), each rounded to the nearest. count must be a multiple of the block.
void EncodeRow(WeightType type, const float* numbers, int64_t count, std::byte* out);

}  // namespace quire::kernels
