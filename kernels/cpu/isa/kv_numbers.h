#pragma once

#include "comm/base/number_type.h"
#include "kernels/cpu/isa/vec.h"

// The numbers that a KV cache is made of: floats, halves, or bytes that come with scales.
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

/// Whether numbers come with scales.
template <class T>
inline constexpr bool kScaled = sizeof(T) == 1;

/// Calls run.template operator()<T>() for the numbers of a cache, whose type is known only now.
template <class Run>
void WithKvNumbers(NumberType type, const Run& run) {
  switch (type) {
    case NumberType::kF32:
      return run.template operator()<float>();
    case NumberType::kF16:
      return run.template operator()<Half>();
    case NumberType::kInt8:
      return run.template operator()<int8_t>();
    default:
      __builtin_trap();  // KvHeadBytes lets no other type pass
  }
}

}  // namespace quire::kernels::QUIRE_ISA
