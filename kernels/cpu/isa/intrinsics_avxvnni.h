#pragma once

#include "kernels/cpu/isa/intrinsics_256.h"

namespace quire::kernels::QUIRE_ISA {

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  sum = reinterpret_cast<IntVec>(_mm256_dpwssd_avx_epi32(reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(a),
                                                         reinterpret_cast<__m256i>(b)));
}

}  // namespace quire::kernels::QUIRE_ISA
