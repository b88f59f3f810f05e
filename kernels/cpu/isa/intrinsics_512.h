#pragma once

#include <immintrin.h>

#include "kernels/cpu/isa/vec_types.h"

namespace quire::kernels::QUIRE_ISA {

/// Returns a * b + c, rounded once.
inline Vec MulAdd(Vec a, Vec b, Vec c) {
  return reinterpret_cast<Vec>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}

// The functions below use intrinsics, because gcc 12 compiles vector extensions for them to several instructions each.

inline IntVec Widen(ShortVec v) {
  return reinterpret_cast<IntVec>(_mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(v)));
}
inline IntVec Widen(SignedByteVec v) {
  return reinterpret_cast<IntVec>(_mm512_maskz_cvtepi8_epi32(0xffff, reinterpret_cast<__m128i>(v)));
}
inline Vec HalfToFloat(ShortVec half) {
  return reinterpret_cast<Vec>(_mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(half)));
}

/// Converts floats to fp16. Rounds to nearest, ties to even; magnitudes from 65,520 on become infinite.
inline ShortVec FloatToHalf(Vec v) {
  return reinterpret_cast<ShortVec>(
      _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
}

/// Transposes four rows of bytes that are `stride` bytes apart: lane i gets byte i of each row, the first row's byte
/// lowest.
inline IntVec LoadQuads(const int8_t* rows, int64_t stride) {
  const auto row = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + i * stride)); };
  __m512i all = _mm512_inserti32x4(_mm512_castsi128_si512(row(0)), row(1), 1);
  all = _mm512_inserti32x4(_mm512_inserti32x4(all, row(2), 2), row(3), 3);
  const __m512i fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  all = _mm512_maskz_permutexvar_epi32(0xffff, fours, all);
  return reinterpret_cast<IntVec>(_mm512_shuffle_epi8(all, _mm512_maskz_broadcast_i32x4(0xffff, bytes)));
}

}  // namespace quire::kernels::QUIRE_ISA
