#pragma once

#include "kernels/cpu/isa/intrinsics_512.h"
#include "kernels/cpu/isa/table.h"

namespace quire::kernels::QUIRE_ISA {

/// Returns the table for vectors of the same length without VNNI's byte products. That table computes everything except
/// integer products.
inline const IsaTable& WithoutByteProducts() { return avx512::Table(); }

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  sum = reinterpret_cast<IntVec>(
      _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

inline constexpr ByteProducts kByteProducts = ByteProducts::kAll;
using QuadSum = IntVec;
inline QuadSum BeginQuads(IntVec begin) { return begin; }

/// sum[i] += the four products of lane i's unsigned bytes in w and signed bytes in x.
inline void AddByteQuads(IntVec& sum, CellVec w, IntVec x) {
  sum = reinterpret_cast<IntVec>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(w), reinterpret_cast<__m512i>(x)));
}
inline void AddQuads(QuadSum& sum, CellVec w, IntVec x) { AddByteQuads(sum, w, x); }
inline IntVec Total(IntVec sum, IntVec) { return sum; }

}  // namespace quire::kernels::QUIRE_ISA
