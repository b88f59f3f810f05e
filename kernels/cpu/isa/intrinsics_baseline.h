#pragma once

#include <emmintrin.h>

#include "kernels/cpu/isa/intrinsics_plain.h"

namespace quire::kernels::QUIRE_ISA {

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  sum += reinterpret_cast<IntVec>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}

inline constexpr ByteProducts kByteProducts = ByteProducts::kNone;
using QuadSum = IntVec;

}  // namespace quire::kernels::QUIRE_ISA

#include "kernels/cpu/isa/byte_quads.h"
