#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

/// How numbers are stored: those of a tensor in a file, of a packed weight, of activations, of the KV cache, of what
/// ranks sum up. The only enum of its kind. Who takes some of these types alone says which, and checks it.
///
/// The q* types hold blocks along a row. Of 32 numbers:
///   q8_0: fp16 d, 32 int8 q                   value = d * q
///   q4_0: fp16 d, nibbles                     value = d * (q - 8)
///   q4_1: fp16 d, fp16 m, nibbles             value = d * q + m
/// Byte i of 16 bytes of nibbles holds number i in its low half and number i + 16 in its high half (GGUF's layout).
/// Those that only GGUF files have, in blocks of 32 or 256 numbers, are described in kernels/cpu/file_quants.cc.
/// MXFP4 has blocks of 32 numbers, too: E2M1 in four bits, of 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, times
/// 2^(e - 127), e a byte:
///   mxfp4: e, nibbles as above                GGUF's
///   mxfp4_pairs: nibbles of neighbours, the   safetensors'; the bytes e lie elsewhere
///         even one low
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
  kU8,    // parts of other tensors (comm/model/formats/mxfp4.h)
  kInt8,  // integers whose scale lies elsewhere
  kFp8E4M3,
  kInt4,   // likewise; where in a file's words they are, comm/model/formats/scaled_matrix.h says
  kInt32,  // parts of other tensors, as kInt64
  kInt64,
  kFp8Groups,  // on GPUs: E4M3 with a factor for 128 columns of a row, where kFp8E4M3 has one for a row
};

/// Of a type: what files and errors call it, and the numbers and bytes of a block (1 number for types without blocks).
struct NumberLayout {
  const char* name;
  int64_t block_numbers;
  int64_t block_bytes;
};

/// By NumberType. A table, because translation units for different instruction sets share it: they may share data, but
/// no inline functions.
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
};
static_assert(sizeof(kNumberLayouts) / sizeof(NumberLayout) == static_cast<size_t>(NumberType::kFp8Groups) + 1);

constexpr const NumberLayout& LayoutOf(NumberType type) { return kNumberLayouts[static_cast<size_t>(type)]; }

/// Bytes of one number of a type without blocks.
constexpr int64_t ByteSize(NumberType type) { return LayoutOf(type).block_bytes; }

/// The types that GPUs compute in: of activations and weights there, and of sums over GPUs.
constexpr bool IsFloat(NumberType type) {
  return type == NumberType::kF32 || type == NumberType::kF16 || type == NumberType::kBF16;
}

}  // namespace quire
