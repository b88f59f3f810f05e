#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace quire::simt {

/// The 16-bit and 8-bit formats as GPUs have them: numbers are rounded to nearest even; E4M3 saturates at +-448 and has
/// one NaN (OCP 8-bit Floating Point Specification, OFP8).
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Fp8E4M3 {
  uint8_t bits;
};

float ToFloat(Half x);
float ToFloat(BFloat16 x);
float ToFloat(Fp8E4M3 x);
inline float ToFloat(float x) { return x; }

template <class T>
T FromFloat(float x);
template <>
Half FromFloat<Half>(float x);
template <>
BFloat16 FromFloat<BFloat16>(float x);
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
