#pragma once

#include "kernels/cpu/isa/fetch.h"
#include "kernels/cpu/isa/panel.h"

// What the products of quantised weights with 16-bit and with 8-bit x share: a block of a panel, and the walk over
// blocks.
namespace quire::kernels::QUIRE_ISA {

/// Blocks that are summed in one go: a panel of so many stays in the second-level cache, and so do rows of x.
inline constexpr int64_t kBlocks = 32, kRowsInCache = 120;
/// Integer sums, the weights of some columns and those of x fit the register file (16, or 32 for AVX-512).
inline constexpr int kIntegerTileRows = 8 / kVecs;

/// Where things are in a block of a panel: 32 columns of 16 rows (packed_weight.h).
template <NumberType Type>
struct Block {
  static constexpr bool kHasMinimum = Type == NumberType::kQ4_1;
  static constexpr bool kIsBytes = Type == NumberType::kQ8_0;
  static constexpr int64_t kHeadBytes = (kHasMinimum ? 4 : 2) * kPanelRows;
  static constexpr int64_t kBytes = kHeadBytes + (kIsBytes ? kQuantBlock : kQuantBlock / 2) * kPanelRows;

  /// The integers of eight columns, or of four of them if they are bytes: part 0 or 1.
  static CellVec Cell(const std::byte* cells, int group, int part, int v) {
    const int at = kIsBytes ? 2 * group + part : group;
    return LoadAs<CellVec>(cells + (at * kVecs + v) * static_cast<int>(sizeof(CellVec)));
  }
};

/// Blocks from one to that which is fetched meanwhile: one tile of x leaves little time to wait.
inline constexpr int64_t kAhead = 8;

/// Adds to the sums what a block's integer sums stand for. offset: what the weight's integers were raised by.
template <NumberType Type, int MT, class T>
QUIRE_INLINE inline void AddScaled(const QuantizedRows<T>& x, int64_t row, int64_t block, const std::byte* data,
                                   int offset, const IntVec (&dot)[MT][kVecs], TileSums<MT>& sums) {
  const int64_t blocks = x.cols / kQuantBlock, at = row * blocks + block;
  Unrolled<kVecs>([&](auto v) QUIRE_INLINE {
    const Vec d = HalfToFloat(LoadAs<ShortVec>(data + v * sizeof(ShortVec)));
    Vec m = {};
    if constexpr (Block<Type>::kHasMinimum)
      m = HalfToFloat(LoadAs<ShortVec>(data + 2 * kPanelRows + v * sizeof(ShortVec)));
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      const Vec integers = __builtin_convertvector(dot[i][v], Vec), scale = Splat(x.scales[at + i * blocks]);
      const float sum = x.sums[at + i * blocks];
      const Vec product =
          offset == 0 ? integers * scale : MulAdd(integers, scale, Splat(static_cast<float>(-offset) * sum));
      sums.sum[i][v] = MulAdd(product, d, sums.sum[i][v]);
      if constexpr (Block<Type>::kHasMinimum) sums.sum[i][v] = MulAdd(m, Splat(sum), sums.sum[i][v]);
    });
  });
}

/// Calls add.template operator()<MT>(row, block, data, sums) for every block of every panel with every tile of x.
template <NumberType Type, class Add>
void ForBlocks(const PanelProduct& p, const Add& add) {
  constexpr int64_t kBytes = Block<Type>::kBytes;
  const int64_t blocks = p.weight.cols / kQuantBlock;
  for (int64_t b0 = 0; b0 == 0 || b0 < blocks; b0 += kBlocks) {
    const int64_t b1 = Least(blocks, b0 + kBlocks);
    const int64_t next_panel = (blocks - (b1 - b0)) * kBytes;  // from the end of these blocks
    ForTiles<kIntegerTileRows>(p, b0 == 0, kRowsInCache,
                               [&]<int MT>(int64_t row, int64_t panel, TileSums<MT>& sums) QUIRE_INLINE {
                                 const std::byte* data = p.weight.data + (panel * blocks + b0) * kBytes;
                                 const bool first = row % kRowsInCache == 0;  // the others find the panel in the cache
                                 for (int64_t b = b0; b < b1; ++b, data += kBytes) {
                                   if (first)
                                     Fetch(data + kAhead * kBytes + (b + kAhead < b1 ? 0 : next_panel), kBytes);
                                   add.template operator()<MT>(row, b, data, sums);
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
