#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace quire::simt {

/// The 16-bit and 8-bit formats as GPUs have them. Numbers are rounded to nearest even. E4M3 saturates at +-448; an
/// E4M3 number is NaN if its bits apart from the sign are all set (OCP 8-bit Floating Point Specification, OFP8).
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Fp8E4M3 {
  uint8_t bits;
};

// Kernels convert every operand of a matrix product, so these conversions of fp16 and bf16 must be cheap: they take
// only a few operations.
inline float ToFloat(Half x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  // Read as a float, the shifted bits have an exponent that is too small by 112, the difference of the two formats'
  // exponent biases. So the number is multiplied by 2^112, which is exact for subnormal halves, too.
  const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const float value = magnitude > 0x7c00 ? NAN : magnitude == 0x7c00 ? INFINITY : finite;
  return x.bits & 0x8000 ? -value : value;
}
inline float ToFloat(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
float ToFloat(Fp8E4M3 x);
inline float ToFloat(float x) { return x; }

template <class T>
T FromFloat(float x);
template <>
inline Half FromFloat<Half>(float x) {
  if (std::isnan(x)) return {0x7fff};
  const uint32_t sign = std::signbit(x) ? 0x8000 : 0, bits = std::bit_cast<uint32_t>(std::fabs(x));
  uint32_t magnitude;
  if (std::fabs(x) >= 65520.0f) {
    magnitude = 0x7c00;
  } else if (bits >= std::bit_cast<uint32_t>(0x1p-14f)) {  // no subnormal half
    magnitude = ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112u << 10);
  } else {  // the last place of floats from 0.5 on is the unit of subnormal halves: the sum rounds to it
    magnitude = std::bit_cast<uint32_t>(std::fabs(x) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  }
  return {static_cast<uint16_t>(sign | magnitude)};
}
template <>
inline BFloat16 FromFloat<BFloat16>(float x) {
  if (std::isnan(x)) return {0x7fff};
  const auto bits = std::bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
template <>
Fp8E4M3 FromFloat<Fp8E4M3>(float x);
template <>
inline float FromFloat<float>(float x) {
  return x;
}

inline float Exp(float x) { return std::exp(x); }
inline float Exp2(float x) { return std::exp2(x); }
inline float Tanh(float x) { return std::tanh(x); }
inline float Rsqrt(float x) { return 1.0f / std::sqrt(x); }
/// Returns log(1 + x).
inline float Log1p(float x) { return std::log1p(x); }
inline double Log(double x) { return std::log(x); }
inline float Max(float a, float b) { return std::fmax(a, b); }
inline float Min(float a, float b) { return std::fmin(a, b); }
template <class T>
T Max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T Min(T a, T b) {
  return a < b ? a : b;
}

}  // namespace quire::simt
