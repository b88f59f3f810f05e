#pragma once

#include <immintrin.h>

#include "kernels/cpu/isa/vec_types.h"

namespace quire::kernels::QUIRE_ISA {

/// a * b + c, rounded once.
inline Vec MulAdd(Vec a, Vec b, Vec c) {
  return reinterpret_cast<Vec>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
}

// For gcc 12 each of these by itself is several instructions.

inline IntVec Widen(ShortVec v) {
  return reinterpret_cast<IntVec>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(v)));
}
inline IntVec Widen(SignedByteVec v) {
  int64_t bytes;
  __builtin_memcpy(&bytes, &v, sizeof(bytes));
  return reinterpret_cast<IntVec>(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bytes)));
}
inline Vec HalfToFloat(ShortVec half) {
  return reinterpret_cast<Vec>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(half)));
}

/// To the nearest, ties to even; from 65,520 on infinite.
inline ShortVec FloatToHalf(Vec v) {
  return reinterpret_cast<ShortVec>(_mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace quire::kernels::QUIRE_ISA
