#pragma once

#include "kernels/cpu/isa/fetch.h"
#include "kernels/cpu/isa/panel_block.h"

// What the products of quantised weights with 16-bit and with 8-bit x share: sums, and the walk over blocks.
namespace quire::kernels::QUIRE_ISA {

/// Blocks that are summed in one go: a panel of so many stays in the second-level cache, and so do rows of x.
inline constexpr int64_t kBlocks = 32, kRowsInCache = 120;
/// Sums, integer sums, the weights of some columns and a number of x fit the register file (16, or 32 for AVX-512).
inline constexpr int kIntegerTileRows = 8 / kVecs, kWideTileRows = 6;

/// Blocks from one to that which is fetched meanwhile: one tile of x leaves little time to wait.
inline constexpr int64_t kAhead = 8;

/// What a block's integer sums begin with where the weight's integers were raised by `offset`: it takes away what that
/// adds. (An addition of floats behind the sums would take as long as a product of 64 bytes.)
template <class T>
IntVec BeginWith(const QuantizedRows<T>& x, int64_t row, int64_t block, int offset) {
  return IntVec{} - offset * x.totals[row * (x.cols / kQuantBlock) + block];
}

/// Adds to the sums what a block's integer sums stand for.
template <NumberType Type, int MT, int V, class T>
QUIRE_INLINE inline void AddScaled(const QuantizedRows<T>& x, int64_t row, int64_t block, const PanelBlocks& w,
                                   const IntVec (&dot)[MT][V], TileSums<MT, V>& sums) {
  const int64_t blocks = x.cols / kQuantBlock, at = row * blocks + block;
  Unrolled<V>([&](auto v) QUIRE_INLINE {
    const Vec d = Block<Type>::Head(w, 0, v), m = Block<Type>::kHasMinimum ? Block<Type>::Head(w, 1, v) : Vec{};
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      const Vec product = __builtin_convertvector(dot[i][v], Vec) * Splat(x.scales[at + i * blocks]);
      sums.sum[i][v] = MulAdd(product, d, sums.sum[i][v]);
      if constexpr (Block<Type>::kHasMinimum)
        sums.sum[i][v] = MulAdd(m, Splat(x.sums[at + i * blocks]), sums.sum[i][v]);
    });
  });
}

/// Calls add(row, block, panels' blocks, sums) for every block of every panel with every tile of x.
template <NumberType Type, class Add>
void ForBlocks(const PanelProduct& p, const Add& add) {
  constexpr int64_t kBytes = Block<Type>::kBytes;
  const int64_t blocks = p.weight.cols / kQuantBlock;
  for (int64_t b0 = 0; b0 == 0 || b0 < blocks; b0 += kBlocks) {
    const int64_t b1 = Least(blocks, b0 + kBlocks);
    const int64_t next_panel = (blocks - (b1 - b0)) * kBytes;  // from the end of these blocks
    ForTiles<kIntegerTileRows, kWideTileRows>(
        p, b0 == 0, kRowsInCache, [&]<int MT, int V>(int64_t row, int64_t panel, TileSums<MT, V>& sums) QUIRE_INLINE {
          PanelBlocks w = {p.weight.data + (panel * blocks + b0) * kBytes, blocks * kBytes};
          const bool first = row % kRowsInCache == 0;  // the others find the panels in the cache
          for (int64_t b = b0; b < b1; ++b, w.data += kBytes) {
            for (int v = 0; first && v < V; v += kVecs)
              Fetch(w.OfVector(v) + kAhead * kBytes + (b + kAhead < b1 ? 0 : next_panel), kBytes);
            add(row, b, w, sums);
          }
        });
  }
}

/// Calls run.template operator()<type>() for a packed, quantised type that is known only now.
template <class Run>
void WithType(NumberType type, const Run& run) {
  switch (type) {
    case NumberType::kQ8_0:
      return run.template operator()<NumberType::kQ8_0>();
    case NumberType::kQ4_0:
      return run.template operator()<NumberType::kQ4_0>();
    default:
      return run.template operator()<NumberType::kQ4_1>();
  }
}

}  // namespace quire::kernels::QUIRE_ISA
