#pragma once

#include "kernels/cpu/isa/intrinsics_512.h"

namespace quire::kernels::QUIRE_ISA {

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  sum = reinterpret_cast<IntVec>(
      _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

}  // namespace quire::kernels::QUIRE_ISA
