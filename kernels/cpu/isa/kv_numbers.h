#pragma once

#include "comm/base/number_type.h"
#include "kernels/cpu/isa/vec.h"

// The number types of a KV cache: floats, halves, or bytes with scales. Bytes are converted to floats, or multiplied
// without conversion (Byte).
namespace quire::kernels::QUIRE_ISA {

/// An fp16 number.
struct Half {
  uint16_t bits;
};

inline Vec LoadNumbers(const float* p) { return Load(p); }
inline Vec LoadNumbers(const Half* p) { return HalfToFloat(LoadAs<ShortVec>(p)); }
inline Vec LoadNumbers(const int8_t* p) { return __builtin_convertvector(Widen(LoadAs<SignedByteVec>(p)), Vec); }

/// Loads the first `count` < kLanes numbers; the other lanes are 0.
inline Vec LoadNumbers(const float* p, int64_t count) { return LoadPart(p, count); }
inline Vec LoadNumbers(const Half* p, int64_t count) {
  ShortVec halves = {};
  __builtin_memcpy(&halves, p, static_cast<unsigned long>(count) * sizeof(Half));
  return HalfToFloat(halves);
}
inline Vec LoadNumbers(const int8_t* p, int64_t count) {
  SignedByteVec bytes = {};
  __builtin_memcpy(&bytes, p, static_cast<unsigned long>(count));
  return __builtin_convertvector(Widen(bytes), Vec);
}

/// A byte that is multiplied without conversion; the other factor is rounded to bytes, too.
struct Byte {
  int8_t number;
};

/// True if the numbers have scales.
template <class T>
inline constexpr bool kScaled = sizeof(T) == 1;

/// True if the numbers are multiplied as bytes.
template <class T>
inline constexpr bool kInBytes = false;
template <>
inline constexpr bool kInBytes<Byte> = true;

}  // namespace quire::kernels::QUIRE_ISA
