#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

/// How a number is stored: in a tensor of a file, in a packed weight, in activations, in the KV cache, or in the parts
/// that ranks sum up. All code uses this enum. Code that supports only some of the types names the supported types and
/// checks for them.
///
/// The q* types store blocks of numbers along a row. A block of 32 numbers holds:
///   q8_0: fp16 d, 32 int8 q                   value = d * q
///   q4_0: fp16 d, nibbles                     value = d * (q - 8)
///   q4_1: fp16 d, fp16 m, nibbles             value = d * q + m
/// Byte i of the 16 bytes of nibbles holds number i in its low half and number i + 16 in its high half (GGUF's layout).
/// kernels/cpu/file_quants.cc describes the types that only GGUF files have, in blocks of 32 or 256 numbers. MXFP4 has
/// blocks of 32 numbers, too. A number is E2M1 in four bits (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives) times 2^(e
/// - 127); e is one byte for each block:
///   mxfp4: e, nibbles as above                GGUF's layout
///   mxfp4_pairs: nibbles of neighbours, the   safetensors' layout; the bytes e are in another tensor
///         even number in the low half
enum class NumberType : uint8_t {
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
  kQ2_K,
  kQ3_K,
  kIQ4_NL,
  kIQ4_XS,
  kMxFp4,
  kMxFp4Pairs,
  kU8,    // bytes that are a part of a quantised matrix, such as codes or scales (comm/model/formats/mxfp4.h)
  kInt8,  // integers whose scale is stored in another tensor
  kFp8E4M3,
  kInt4,   // 4-bit integers with scales in another tensor; see comm/model/formats/scaled_matrix.h
  kInt32,  // kInt32 and kInt64: integers that are a part of a quantised matrix, such as packed codes or the shape
  kInt64,
  kFp8Groups,  // GPUs only: E4M3 with a scale for 128 columns of a row; kFp8E4M3 has one scale for each row
  // Types of GGUF files with 1 to 3 bits for a number (kernels/cpu/grid_quants.cc). In most of them one code stands for
  // several numbers.
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kTQ1_0,
  kTQ2_0,
};

/// Describes a number type: its name in files and errors, and how many numbers and bytes one block has. A type without
/// blocks has one number in a block.
struct NumberLayout {
  const char* name;
  int64_t block_numbers;
  int64_t block_bytes;
};

/// The layout of each number type, indexed by NumberType. The layouts are in a table and not in a function, because
/// translation units that are compiled for different instruction sets may share data, but no inline functions.
inline constexpr NumberLayout kNumberLayouts[] = {
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q8_0", 32, 2 + 32},
    {"Q4_0", 32, 2 + 16},
    {"Q4_1", 32, 4 + 16},
    {"Q5_0", 32, 2 + 4 + 16},
    {"Q5_1", 32, 4 + 4 + 16},
    {"Q4_K", 256, 4 + 12 + 128},
    {"Q5_K", 256, 4 + 12 + 32 + 128},
    {"Q6_K", 256, 128 + 64 + 16 + 2},
    {"Q2_K", 256, 16 + 64 + 4},
    {"Q3_K", 256, 32 + 64 + 12 + 2},
    {"IQ4_NL", 32, 2 + 16},
    {"IQ4_XS", 256, 2 + 2 + 4 + 128},
    {"MXFP4", 32, 1 + 16},
    {"MXFP4", 32, 16},
    {"U8", 1, 1},
    {"I8", 1, 1},
    {"F8_E4M3", 1, 1},
    {"I4", 2, 1},
    {"I32", 1, 4},
    {"I64", 1, 8},
    {"F8_E4M3", 1, 1},
    {"IQ1_S", 256, 2 + 32 + 16},
    {"IQ1_M", 256, 32 + 16 + 8},
    {"IQ2_XXS", 256, 2 + 64},
    {"IQ2_XS", 256, 2 + 64 + 8},
    {"IQ2_S", 256, 2 + 32 + 32 + 8 + 8},
    {"IQ3_XXS", 256, 2 + 64 + 32},
    {"IQ3_S", 256, 2 + 64 + 8 + 32 + 4},
    {"TQ1_0", 256, 48 + 4 + 2},
    {"TQ2_0", 256, 64 + 2},
};
static_assert(sizeof(kNumberLayouts) / sizeof(NumberLayout) == static_cast<size_t>(NumberType::kTQ2_0) + 1);

constexpr const NumberLayout& LayoutOf(NumberType type) { return kNumberLayouts[static_cast<size_t>(type)]; }

/// Returns the number of bytes of one number, for types whose blocks hold one number.
constexpr int64_t ByteSize(NumberType type) { return LayoutOf(type).block_bytes; }

/// True for types of stored weights that a Weight can have (kernels/weight.h). Of these types, those from kQ5_0 on
/// occur only in files, and are packed as other types.
constexpr bool IsWeightType(NumberType type) {
  return type <= NumberType::kMxFp4Pairs || type >= NumberType::kIQ1_S;
}

/// True for floating-point numbers of 16 or 32 bits. On GPUs, activations, plain weights and all-reduces have these
/// types.
constexpr bool IsFloat(NumberType type) {
  return type == NumberType::kF32 || type == NumberType::kF16 || type == NumberType::kBF16;
}

}  // namespace quire
