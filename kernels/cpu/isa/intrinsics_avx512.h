#pragma once

#include "kernels/cpu/isa/intrinsics_512.h"

namespace quire::kernels::QUIRE_ISA {

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  sum += reinterpret_cast<IntVec>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  __asm__("" : "+v"(sum));  // otherwise gcc 12 computes many products first and runs out of registers
}

inline constexpr ByteProducts kByteProducts = ByteProducts::kOfNibbles;
using QuadSum = PairVec;  // the caller adds the start value last
inline QuadSum BeginQuads(IntVec) { return QuadSum{}; }

/// Adds the products of unsigned nibbles (one per byte) and bytes of x to 16-bit sums. In a block, each sum gets 16
/// products, and so reaches at most 16 * 15 * 127.
inline void AddQuads(PairVec& sum, CellVec w, IntVec x) {
  sum += reinterpret_cast<PairVec>(_mm512_maddubs_epi16(reinterpret_cast<__m512i>(w), reinterpret_cast<__m512i>(x)));
  __asm__("" : "+v"(sum));  // see AddPairs
}
inline IntVec Total(PairVec sum, IntVec begin) {
  return begin + reinterpret_cast<IntVec>(_mm512_madd_epi16(reinterpret_cast<__m512i>(sum), _mm512_set1_epi16(1)));
}

}  // namespace quire::kernels::QUIRE_ISA

#include "kernels/cpu/isa/byte_quads.h"
