// Products of quantised weights with x in 16-bit integers, exact within a block.
#include "kernels/cpu/isa/quantized_panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// Calls use(pair, w) for each of a block's 16 pairs of columns, in any order; w[V]: those of all rows.
template <NumberType Type, int V, class Use>
QUIRE_INLINE inline void ForPairs(const PanelBlocks& blocks, const Use& use) {
  for (int group = 0; group < kQuantBlock / 8; ++group) {
    const auto with = [&](int pair, const auto& of) QUIRE_INLINE {
      PairVec w[V];
      Unrolled<V>([&](auto v) QUIRE_INLINE { w[v] = of(v); });
      use(group * 4 + pair, w);
    };
    const auto cell = [&](int part, int v) QUIRE_INLINE { return Block<Type>::Cell(blocks, group, part, v); };
    if constexpr (Block<Type>::kIsBytes) {
      Unrolled<2>([&](auto part) QUIRE_INLINE {
        with(part, [&](int v) QUIRE_INLINE { return reinterpret_cast<PairVec>(cell(part, v) << 8) >> 8; });
        with(part + 2, [&](int v) QUIRE_INLINE { return reinterpret_cast<PairVec>(cell(part, v)) >> 8; });
      });
    } else {
      CellVec nibbles[V];
      Unrolled<V>([&](auto v) QUIRE_INLINE { nibbles[v] = cell(0, v); });
      Unrolled<4>([&](auto j) QUIRE_INLINE {
        with(j, [&](int v) QUIRE_INLINE { return reinterpret_cast<PairVec>((nibbles[v] >> (4 * j)) & 15); });
      });
    }
  }
}

/// One block of MT rows of x, which begin at `row`, with the same block of panels.
template <NumberType Type, int MT, int V>
QUIRE_INLINE inline void AddBlock(const QuantizedRows<int16_t>& x, int64_t row, int64_t block,
                                  const PanelBlocks& blocks, TileSums<MT, V>& sums) {
  constexpr int kOffset = Type == NumberType::kQ4_0 ? 8 : 0;
  IntVec dot[MT][V];
  Unrolled<MT>([&](auto i) QUIRE_INLINE {
    const IntVec begin = kOffset == 0 ? IntVec{} : BeginWith(x, row + i, block, kOffset);
    Unrolled<V>([&](auto v) QUIRE_INLINE { dot[i][v] = begin; });
  });
  const int16_t* values = x.values + row * x.cols + block * kQuantBlock;
  ForPairs<Type, V>(blocks, [&](int pair, const PairVec(&w)[V]) QUIRE_INLINE {
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      const auto both = reinterpret_cast<PairVec>(IntVec{} + LoadAs<int32_t>(values + i * x.cols + 2 * pair));
      Unrolled<V>([&](auto v) QUIRE_INLINE { AddPairs(dot[i][v], w[v], both); });
    });
  });
  AddScaled<Type>(x, row, block, blocks, dot, sums);
}

template <NumberType Type>
void MatmulOf(const PanelProduct& p, const QuantizedRows<int16_t>& x) {
  ForBlocks<Type>(p, [&](int64_t row, int64_t block, const PanelBlocks& blocks, auto& sums)
                         QUIRE_INLINE { AddBlock<Type>(x, row, block, blocks, sums); });
}

}  // namespace

void MatmulInt16(const PanelProduct& p, const QuantizedRows<int16_t>& x) {
  WithType(p.weight.type, [&]<NumberType Type>() { MatmulOf<Type>(p, x); });
}

}  // namespace quire::kernels::QUIRE_ISA
