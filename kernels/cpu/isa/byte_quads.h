#pragma once

#include "kernels/cpu/isa/vec_types.h"

// Computes products of bytes by 16-bit products, for instruction sets without byte products.
namespace quire::kernels::QUIRE_ISA {

/// sum[i] += the four products of lane i's unsigned bytes in w and signed bytes in x.
inline void AddByteQuads(IntVec& sum, CellVec w, IntVec x) {
  const auto pairs = reinterpret_cast<PairVec>(x);
  AddPairs(sum, reinterpret_cast<PairVec>(w & 0x00ff), (pairs << 8) >> 8);
  AddPairs(sum, reinterpret_cast<PairVec>(w >> 8), pairs >> 8);
}

}  // namespace quire::kernels::QUIRE_ISA
