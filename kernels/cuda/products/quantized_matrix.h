#pragma once

#include <cstdint>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// A weight [n, k] that stays quantised in device memory. The integers of all rows come first, then the scales, row by
/// row. In every type but FP8, each block of 32 numbers along a row has its own scales:
///   kQ8_0: bytes q + 128 [n, k], then fp16 d [n, k / 32]                        value = d * q
///   kQ4_1: nibbles q [n, k / 2], the even number low, then fp16 d, m [n, k / 32, 2]    value = d * q + m
///   kMxFp4: nibbles of E2M1 likewise, then d [n, k / 32], a power of two in bf16       value = d * e2m1
///   kQ6_K: the low four bits likewise, then the high two [n, k / 4], number i of 16 at bits 2 i of 32, then fp16
///          d [n, k / 32, 2] of the first and the last 16 of each block            value = d * (q - 32)
///   kQ5_K: bits likewise, then fp16 d, m [n, k / 32, 2]                                value = d * q + m
///   kFp8E4M3: bytes [n, k], then fp32 d [n]                                            value = d * e4m3
///   kFp8Groups: bytes likewise, then fp32 d [n, ceil(k / 128)]                         value = d * e4m3
/// q4_0 is kQ4_1 with m = -8 d, which is exact. Values are computed in fp32 and rounded to the dtype once, so they
/// equal those of a weight that was expanded while loading.
struct QuantizedMatrix {
  NumberType type;   // a type for which IsQuantizedOnDevice is true
  const void* data;  // 16-byte aligned
  int64_t n;
  int64_t k;  // a multiple of 32
};

constexpr bool HasSixBits(NumberType type) { return type == NumberType::kQ6_K || type == NumberType::kQ5_K; }
constexpr bool IsFp8(NumberType type) { return type == NumberType::kFp8E4M3 || type == NumberType::kFp8Groups; }
constexpr bool IsQuantizedOnDevice(NumberType type) {
  return type == NumberType::kQ8_0 || type == NumberType::kQ4_1 || type == NumberType::kMxFp4 || HasSixBits(type) ||
         IsFp8(type);
}
/// Columns per factor in kFp8Groups.
inline constexpr int64_t kFp8Group = 128;

/// The sizes in bytes of a matrix's parts, which lie one after another.
struct QuantizedParts {
  int64_t ints;   // integers or nibbles
  int64_t highs;  // high two bits of six-bit numbers; 0 for other types
  int64_t scales;

  constexpr int64_t sum() const { return ints + highs + scales; }
};
constexpr QuantizedParts PartsOf(NumberType type, int64_t n, int64_t k) {
  if (IsFp8(type)) return {n * k, 0, 4 * n * (type == NumberType::kFp8E4M3 ? 1 : (k + kFp8Group - 1) / kFp8Group)};
  const bool pairs = type == NumberType::kQ4_1 || HasSixBits(type);  // two scales per block
  return {type == NumberType::kQ8_0 ? n * k : n * k / 2, HasSixBits(type) ? n * k / 4 : 0,
          n * k / 32 * (pairs ? 4 : 2)};
}
constexpr int64_t QuantizedBytes(NumberType type, int64_t n, int64_t k) { return PartsOf(type, n, k).sum(); }

}  // namespace quire::kernels
