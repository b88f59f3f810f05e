#pragma once

#include <immintrin.h>

#include "kernels/cpu/isa/vec_types.h"

namespace quire::kernels::QUIRE_ISA {

/// a * b + c, rounded once.
inline Vec MulAdd(Vec a, Vec b, Vec c) {
  return reinterpret_cast<Vec>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}

// For gcc 12 each of these by itself is several instructions.

inline IntVec Widen(ShortVec v) {
  return reinterpret_cast<IntVec>(_mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(v)));
}
inline IntVec Widen(SignedByteVec v) {
  return reinterpret_cast<IntVec>(_mm512_maskz_cvtepi8_epi32(0xffff, reinterpret_cast<__m128i>(v)));
}
inline Vec HalfToFloat(ShortVec half) {
  return reinterpret_cast<Vec>(_mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(half)));
}

/// To the nearest, ties to even; from 65,520 on infinite.
inline ShortVec FloatToHalf(Vec v) {
  return reinterpret_cast<ShortVec>(
      _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace quire::kernels::QUIRE_ISA
