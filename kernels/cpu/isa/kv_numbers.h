#pragma once

#include "comm/base/number_type.h"
#include "kernels/cpu/isa/vec.h"

// The numbers that a KV cache is made of: floats, halves, or bytes that come with scales, and may be multiplied as
// such.
namespace quire::kernels::QUIRE_ISA {

/// A number in half precision.
struct Half {
  uint16_t bits;

  explicit operator float() const { return HalfToFloat(bits); }
};

inline Vec LoadNumbers(const float* p) { return Load(p); }
inline Vec LoadNumbers(const Half* p) { return HalfToFloat(LoadAs<ShortVec>(p)); }
inline Vec LoadNumbers(const int8_t* p) { return __builtin_convertvector(Widen(LoadAs<SignedByteVec>(p)), Vec); }

/// The first `count` < kLanes numbers, zeros above.
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

/// A byte that is multiplied as it is: what it is multiplied by is rounded to bytes, too.
struct Byte {
  int8_t number;
};

/// Whether numbers come with scales.
template <class T>
inline constexpr bool kScaled = sizeof(T) == 1;

/// Whether numbers are multiplied as bytes.
template <class T>
inline constexpr bool kInBytes = false;
template <>
inline constexpr bool kInBytes<Byte> = true;

}  // namespace quire::kernels::QUIRE_ISA
