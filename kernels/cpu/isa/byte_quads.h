#pragma once

#include "kernels/cpu/isa/vec_types.h"

// Products of bytes by those of 16-bit integers, for instruction sets without the former.
namespace quire::kernels::QUIRE_ISA {

/// Adds to each lane four products of w's bytes, without sign, and x's.
inline void AddByteQuads(IntVec& sum, CellVec w, IntVec x) {
  const auto pairs = reinterpret_cast<PairVec>(x);
  AddPairs(sum, reinterpret_cast<PairVec>(w & 0x00ff), (pairs << 8) >> 8);
  AddPairs(sum, reinterpret_cast<PairVec>(w >> 8), pairs >> 8);
}

}  // namespace quire::kernels::QUIRE_ISA
