#pragma once

#include <emmintrin.h>

#include "kernels/cpu/isa/vec_types.h"

namespace quire::kernels::QUIRE_ISA {

inline IntVec Widen(ShortVec v) { return __builtin_convertvector(v, IntVec); }
inline IntVec Widen(SignedByteVec v) { return __builtin_convertvector(v, IntVec); }

inline Vec HalfToFloat(ShortVec half) {
  const IntVec h = __builtin_convertvector(half, IntVec);
  const Vec scaled = reinterpret_cast<Vec>((h & 0x7fff) << 13) * 0x1p112f;
  const IntVec special = ((h & 0x7c00) == 0x7c00) & 0x7f800000;
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(scaled) | special | ((h & 0x8000) << 16));
}

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  sum += reinterpret_cast<IntVec>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}

}  // namespace quire::kernels::QUIRE_ISA
