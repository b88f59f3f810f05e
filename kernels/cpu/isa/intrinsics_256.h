#pragma once

#include <immintrin.h>

#include "kernels/cpu/isa/vec_types.h"

namespace quire::kernels::QUIRE_ISA {

/// Returns a * b + c, rounded once.
inline Vec MulAdd(Vec a, Vec b, Vec c) {
  return reinterpret_cast<Vec>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
}

// The functions below use intrinsics, because gcc 12 compiles vector extensions for them to several instructions each.

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

/// Converts floats to fp16. Rounds to nearest, ties to even; magnitudes from 65,520 on become infinite.
inline ShortVec FloatToHalf(Vec v) {
  return reinterpret_cast<ShortVec>(_mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
}

/// Transposes four rows of bytes that are `stride` bytes apart: lane i gets byte i of each row, the first row's byte
/// lowest.
inline IntVec LoadQuads(const int8_t* rows, int64_t stride) {
  const auto row = [&](int i) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(rows + i * stride)); };
  const __m256i all = _mm256_set_m128i(_mm_unpacklo_epi64(row(2), row(3)), _mm_unpacklo_epi64(row(0), row(1)));
  const __m256i fours = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
  const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return reinterpret_cast<IntVec>(_mm256_shuffle_epi8(fours, _mm256_broadcastsi128_si256(bytes)));
}

}  // namespace quire::kernels::QUIRE_ISA
