#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels {

/// How the numbers of a weight matrix are stored. The q* types hold blocks along a row. Of 32 numbers:
///   q8_0: fp16 d, 32 int8 q                   value = d * q
///   q4_0: fp16 d, nibbles                     value = d * (q - 8)
///   q4_1: fp16 d, fp16 m, nibbles             value = d * q + m
/// Byte i of 16 bytes of nibbles holds number i in its low half and number i + 16 in its high half (GGUF's layout).
/// The types after those are found in files only; they are packed as other ones (PackedType). Of 32 numbers:
///   q5_0: fp16 d, 32 fifth bits, nibbles      value = d * (q - 16)
///   q5_1: fp16 d, fp16 m, fifth bits, nibbles value = d * q + m
/// Blocks of 256 numbers:
///   q4_k: fp16 d, fp16 n, 6 bits of scale s   value = d * s * q - n * t
///         and of minimum t for each 32 numbers
///         in 12 bytes, 128 bytes of nibbles
///   q5_k: the same, with 32 bytes of fifth
///         bits before the nibbles
///   q6_k: 128 bytes of low four bits, 64 of   value = d * s * (q - 32)
///         high two, int8 s for each 16 numbers,
///         fp16 d
/// MXFP4 has blocks of 32 numbers, too: E2M1 in four bits, of 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, times
/// 2^(e - 127), e a byte:
///   mxfp4: e, nibbles as above                GGUF's
///   mxfp4_pairs: nibbles of neighbours, the   safetensors'
///         even one low; Weight::scales has e
enum class WeightType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMxFp4,
  kMxFp4Pairs,
};

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
  const std::byte* scales = nullptr;  // of mxfp4_pairs: [rows, cols / 32]
};

/// Writes numbers [col, col + count) of row `row` as float; exact for every type but for the one rounding of
/// d * q (+ m) to float. col and count must be multiples of the type's block.
void DecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out);

/// The type that a weight of a file is packed as: its own, q4_1 for q4_k, q8_0 for those of five and six bits and for
/// MXFP4.
WeightType PackedType(WeightType stored);

/// Writes part of a row of a weight, whose type is not its own PackedType, as blocks of that; col and count must be
/// multiples of the weight's block. q5_0 and MXFP4 keep their numbers;
/// q4_k keeps its integers, scale and minimum of 32 numbers becoming halves; the others are rounded anew by EncodeRow.
void RecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, std::byte* out);

/// Writes numbers as blocks of q8_0 (the largest of a block by its absolute value becomes 127) or q4_1 (from the least
/// to the largest, 0 to 15), each rounded to the nearest. count must be a multiple of the block.
void EncodeRow(WeightType type, const float* numbers, int64_t count, std::byte* out);

}  // namespace quire::kernels
