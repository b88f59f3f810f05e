#pragma once

#include "kernels/cpu/isa/intrinsics_512.h"

namespace quire::kernels::QUIRE_ISA {

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  sum += reinterpret_cast<IntVec>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  __asm__("" : "+v"(sum));  // without it gcc 12 gathers the products of many pairs first and runs out of registers
}

}  // namespace quire::kernels::QUIRE_ISA
