#pragma once

// Vectors of QUIRE_LANES floats as compiler vector extensions, so that one source serves every instruction set. Only
// cpu/isa/*.cc may include this file. All names are in the namespace QUIRE_ISA, and nothing from the standard library
// is used. Otherwise the linker could use the AVX-512 form of an inline function for every instruction set.

#include <cstdint>

#include "kernels/cpu/isa/vec_types.h"
#include QUIRE_INTRINSICS  // this instruction set's operations that vector extensions lack

namespace quire::kernels::QUIRE_ISA {

inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }

inline Vec Load(const float* p) { return LoadAs<Vec>(p); }

/// Loads the first `count` < kLanes floats; the other lanes are 0.
inline Vec LoadPart(const float* p, int64_t count) {
  Vec v = {};
  __builtin_memcpy(&v, p, static_cast<unsigned long>(count) * sizeof(float));
  return v;
}
inline void Store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof(Vec)); }
inline Vec Splat(float x) { return x - Vec{}; }  // 0 + x would cost an addition, because x may be -0

// Max and Min return the larger or the smaller of the two numbers in each lane, by one instruction. If either number is
// NaN, the result is b.
inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec Min(Vec a, Vec b) { return a < b ? a : b; }

/// Computes a * b + c by the instruction set's MulAdd (QUIRE_INTRINSICS), or by a product and a sum that are rounded
/// separately. Only MulAdd may round once: compilers must not contract, as they would decide by the surrounding code
/// (kernels/CMakeLists.txt).
template <bool kRoundsOnce>
inline Vec MulAddOf(Vec a, Vec b, Vec c) {
  if constexpr (kRoundsOnce) return MulAdd(a, b, c);
  return a * b + c;
}

/// Combines all lanes in a fixed order: the upper half with the lower half, until one lane is left.
template <class T, class V, class Join>
inline T JoinLanes(V v, const Join& join) {
  typedef T Quad __attribute__((vector_size(16)));
  typedef int32_t QuadIndex __attribute__((vector_size(16)));
  Quad part[kLanes / 4];
  __builtin_memcpy(part, &v, sizeof(v));
  for (int width = kLanes / 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] = join(part[i], part[i + width]);
  }
  Quad all = join(part[0], __builtin_shuffle(part[0], QuadIndex{2, 3, 0, 1}));
  all = join(all, __builtin_shuffle(all, QuadIndex{1, 0, 3, 2}));
  return all[0];
}
inline float Sum(Vec v) {
  return JoinLanes<float>(v, [](auto a, auto b) { return a + b; });
}
inline int32_t Sum(IntVec v) {
  return JoinLanes<int32_t>(v, [](auto a, auto b) { return a + b; });
}
inline float MaxLane(Vec v) {
  return JoinLanes<float>(v, [](auto a, auto b) { return a > b ? a : b; });
}

/// 1.5 * 2^23. Adding this number to x rounds x to an integer, which appears in the lowest bits of the sum.
inline constexpr float kRounder = 12582912.0f;

/// Returns exp(x) to about 1 ulp for x in [-87, 88]. Below -87 the result is 0, above 88 exp(88); NaN gives NaN. exp(x)
/// = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of degree 7. With kRoundsOnce
/// the function is as fast as this instruction set allows; without kRoundsOnce it gives the same bits on every
/// instruction set.
template <bool kRoundsOnce = true>
inline Vec Exp(Vec x) {
  const Vec low = Splat(-87.0f), high = Splat(88.0f);
  const IntVec vanishes = x < low;  // false for NaN
  x = Max(low, Min(high, x));
  const auto mul_add = [](Vec a, Vec b, float c) { return MulAddOf<kRoundsOnce>(a, b, Splat(c)); };
  const Vec shifted = mul_add(x, Splat(1.44269504088896341f), kRounder);
  const Vec n = shifted - kRounder;
  // ln 2 is subtracted in two parts. The first part has few bits, so its product with n is exact.
  Vec r = MulAddOf<kRoundsOnce>(n, Splat(-0.693359375f), x);
  r = MulAddOf<kRoundsOnce>(n, Splat(2.12194440e-4f), r);
  Vec p = Splat(1.0f / 5040.0f);
  constexpr float kTerms[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
  for (const float term : kTerms) p = mul_add(p, r, term);
  const IntVec exponent = (reinterpret_cast<IntVec>(shifted) - reinterpret_cast<IntVec>(Splat(kRounder)) + 127) << 23;
  p = p * reinterpret_cast<Vec>(exponent);
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(p) & ~vanishes);
}

/// Computes one number with the same arithmetic as Exp.
inline float Exp1(float x) { return Exp(Splat(x))[0]; }

/// Converts 16 bytes to floats by way of 16-bit lanes, because the compiler has single instructions only for that way.
inline void BytesToFloats(Bytes16 bytes, Vec (&out)[16 / kLanes]) {
  const Shorts16 shorts = __builtin_convertvector(bytes, Shorts16);
  ShortVec part[16 / kLanes];
  __builtin_memcpy(part, &shorts, sizeof(shorts));
  for (int i = 0; i < 16 / kLanes; ++i) out[i] = __builtin_convertvector(__builtin_convertvector(part[i], IntVec), Vec);
}
inline void BytesToFloats(SignedBytes16 bytes, Vec (&out)[16 / kLanes]) {
  const SignedShorts16 shorts = __builtin_convertvector(bytes, SignedShorts16);
  SignedShortVec part[16 / kLanes];
  __builtin_memcpy(part, &shorts, sizeof(shorts));
  for (int i = 0; i < 16 / kLanes; ++i) out[i] = __builtin_convertvector(__builtin_convertvector(part[i], IntVec), Vec);
}

/// Converts an IEEE half to float: exact for all values.
inline float HalfToFloat(uint16_t h) {
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
  float value;
  __builtin_memcpy(&value, &magnitude, 4);
  value *= 0x1p112f;  // re-biases the exponent; exact for subnormal halves
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  if ((h & 0x7c00) == 0x7c00) bits |= 0x7f800000u;
  bits |= static_cast<uint32_t>(h & 0x8000) << 16;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

inline Vec BFloatToFloat(ShortVec b) { return reinterpret_cast<Vec>(Widen(b) << 16); }

}  // namespace quire::kernels::QUIRE_ISA
