#pragma once

#include "kernels/cpu/isa/block_sums.h"

// Iterates over a block of panels for products of bytes.
namespace quire::kernels::QUIRE_ISA {

/// The number of quads per block. A quad is four columns of every row, one byte each, in kVecs vectors.
inline constexpr int kQuads = kQuantBlock / 4;

/// Calls use(quad, w) for each quad (four columns) of the block, in the order in which x is stored (quantize.cc). w[V]
/// holds the quad's unsigned bytes for all rows.
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

/// Writes a block's nibbles as bytes, each plus kLift: [quad][V].
template <NumberType Type, int V>
QUIRE_INLINE inline void UnpackQuads(const PanelBlocks& blocks, std::byte* to) {
  ForQuads<Type, V>(blocks, [&](int quad, const CellVec(&w)[V]) QUIRE_INLINE {
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      const CellVec lifted = w[v] + kLift<Type> * 0x0101;  // no byte overflows into the next one
      __builtin_memcpy(to + (quad * V + v) * static_cast<int>(sizeof(CellVec)), &lifted, sizeof(CellVec));
    });
  });
}

}  // namespace quire::kernels::QUIRE_ISA
