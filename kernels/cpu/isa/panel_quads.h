#pragma once

#include "kernels/cpu/isa/block_sums.h"

// A block of panels as products of bytes take it.
namespace quire::kernels::QUIRE_ISA {

/// Four columns of every row, in a vector of a block's kQuads for each of kVecs.
inline constexpr int kQuads = kQuantBlock / 4;

/// Calls use(quad, w) for each of a block's quads of columns, in the order of x; w[V]: those of all rows, bytes without
/// sign.
template <NumberType Type, int V, class Use>
QUIRE_INLINE inline void ForQuads(const PanelBlocks& blocks, const Use& use) {
  Unrolled<kQuantBlock / 8>([&](auto group) QUIRE_INLINE {
    CellVec cell[2][V];
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      cell[0][v] = Block<Type>::Cell(blocks, group, 0, v);
      if constexpr (Block<Type>::kIsBytes) {
        cell[1][v] = Block<Type>::Cell(blocks, group, 1, v);
      } else {
        cell[1][v] = (cell[0][v] >> 4) & 0x0f0f;
        cell[0][v] &= 0x0f0f;
      }
    });
    use(2 * group, cell[0]);
    use(2 * group + 1, cell[1]);
  });
}

template <NumberType, int V, class Use>
QUIRE_INLINE inline void ForQuads(const UnpackedBlocks& blocks, const Use& use) {
  Unrolled<kQuads>([&](auto quad) QUIRE_INLINE {
    CellVec w[V];
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      w[v] = LoadAs<CellVec>(blocks.cells + (quad * V + v) * static_cast<int>(sizeof(CellVec)));
    });
    use(quad, w);
  });
}

/// Writes a block's quads of nibbles as bytes, lifted (kLift): [quad][V].
template <NumberType Type, int V>
QUIRE_INLINE inline void UnpackQuads(const PanelBlocks& blocks, std::byte* to) {
  ForQuads<Type, V>(blocks, [&](int quad, const CellVec(&w)[V]) QUIRE_INLINE {
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      const CellVec lifted = w[v] + kLift<Type> * 0x0101;  // without a carry from byte to byte
      __builtin_memcpy(to + (quad * V + v) * static_cast<int>(sizeof(CellVec)), &lifted, sizeof(CellVec));
    });
  });
}

}  // namespace quire::kernels::QUIRE_ISA
