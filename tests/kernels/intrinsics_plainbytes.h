#pragma once

#include "kernels/cpu/isa/intrinsics_plain.h"
#include "kernels/cpu/isa/table.h"

// This instruction set exists on no processor. It computes VNNI's products of bytes by plain loops, so that code with
// such products runs on any machine.
namespace quire::kernels::QUIRE_ISA {

/// Returns the table of the same vectors without products of bytes, for operations that multiply no integers.
inline const IsaTable& WithoutByteProducts() { return baseline::Table(); }

/// sum[i] += a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
inline void AddPairs(IntVec& sum, PairVec a, PairVec b) {
  for (int i = 0; i < 2 * kLanes; ++i) sum[i / 2] += a[i] * b[i];
}

inline constexpr ByteProducts kByteProducts = ByteProducts::kAll;
using QuadSum = IntVec;
inline QuadSum BeginQuads(IntVec begin) { return begin; }

/// Adds to each lane four products of unsigned bytes of w and signed bytes of x.
inline void AddByteQuads(IntVec& sum, CellVec w, IntVec x) {
  uint8_t from_w[4 * kLanes];
  int8_t from_x[4 * kLanes];
  __builtin_memcpy(from_w, &w, sizeof(w));
  __builtin_memcpy(from_x, &x, sizeof(x));
  for (int i = 0; i < 4 * kLanes; ++i) sum[i / 4] += from_w[i] * from_x[i];
}
inline void AddQuads(QuadSum& sum, CellVec w, IntVec x) { AddByteQuads(sum, w, x); }
inline IntVec Total(IntVec sum, IntVec) { return sum; }

}  // namespace quire::kernels::QUIRE_ISA
