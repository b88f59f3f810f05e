// Computes products of quantised weights with x rounded to 16-bit integers. Within a block the products are exact.
#include "kernels/cpu/isa/block_sums.h"
#include "kernels/cpu/isa/quantized_panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr int kPairs = kQuantBlock / 2;

/// Calls use(pair, w) for each pair of a block's columns, in any order. w[V] holds the pair's weights for all rows.
template <NumberType Type, int V, class Use>
QUIRE_INLINE inline void ForPairs(const PanelBlocks& blocks, const Use& use) {
  for (int group = 0; group < kQuantBlock / 8; ++group) {
    const auto with = [&](int pair, const auto& of) QUIRE_INLINE {
      PairVec w[V];
      Unrolled<V>([&](auto v) QUIRE_INLINE { w[v] = reinterpret_cast<PairVec>(of(v)); });
      use(group * 4 + pair, w);
    };
    const auto cell = [&](int part, int v) QUIRE_INLINE { return Block<Type>::Cell(blocks, group, part, v); };
    if constexpr (Block<Type>::kIsBytes) {
      Unrolled<2>([&](auto part) QUIRE_INLINE {
        with(part, [&](int v) QUIRE_INLINE { return cell(part, v) & 0xff; });
        with(part + 2, [&](int v) QUIRE_INLINE { return cell(part, v) >> 8; });
      });
    } else {
      CellVec nibbles[V];
      Unrolled<V>([&](auto v) QUIRE_INLINE { nibbles[v] = cell(0, v); });
      Unrolled<4>([&](auto j)
                      QUIRE_INLINE { with(j, [&](int v) QUIRE_INLINE { return (nibbles[v] >> (4 * j)) & 15; }); });
    }
  }
}

template <NumberType, int V, class Use>
QUIRE_INLINE inline void ForPairs(const UnpackedBlocks& blocks, const Use& use) {
  for (int pair = 0; pair < kPairs; ++pair) {
    PairVec w[V];
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      w[v] = LoadAs<PairVec>(blocks.cells + (pair * V + v) * static_cast<int>(sizeof(PairVec)));
    });
    use(pair, w);
  }
}

/// With at most this many rows of x, only the highest nibble of a 16-bit word is shifted. The other nibbles are
/// multiplied without a shift, as 1, 16 or 256 times their value. Each of these three factors has its own sum. This
/// needs fewer instructions for the nibbles and more for the sums, and the three sums do not wait for each other.
constexpr int kRowsInPlace = 2;

/// Adds a block of nibbles to the sums. The largest partial sum belongs to the 256-fold nibbles: at most 8 * 15 * 256 *
/// 32,767, just below 2^30.
template <NumberType Type, int MT, int V>
QUIRE_INLINE inline void AddInPlace(const int16_t* values, int64_t stride, const PanelBlocks& blocks,
                                    IntVec (&dot)[MT][V]) {
  IntVec by16[MT][V] = {}, by256[MT][V] = {};
  Unrolled<kQuantBlock / 8>([&](auto group) QUIRE_INLINE {
    CellVec nibbles[V];
    Unrolled<V>([&](auto v) QUIRE_INLINE { nibbles[v] = Block<Type>::Cell(blocks, group, 0, v); });
    const auto add = [&](int j, auto& sums, const auto& of) QUIRE_INLINE {
      Unrolled<MT>([&](auto i) QUIRE_INLINE {
        const auto both =
            reinterpret_cast<PairVec>(IntVec{} + LoadAs<int32_t>(values + i * stride + 8 * group + 2 * j));
        Unrolled<V>([&](auto v) QUIRE_INLINE { AddPairs(sums[i][v], reinterpret_cast<PairVec>(of(v)), both); });
      });
    };
    add(0, dot, [&](int v) QUIRE_INLINE { return nibbles[v] & 0x000f; });
    add(1, by16, [&](int v) QUIRE_INLINE { return nibbles[v] & 0x00f0; });
    add(2, by256, [&](int v) QUIRE_INLINE { return nibbles[v] & 0x0f00; });
    add(3, dot, [&](int v) QUIRE_INLINE { return nibbles[v] >> 12; });
  });
  Unrolled<MT>([&](auto i) QUIRE_INLINE {
    Unrolled<V>([&](auto v) QUIRE_INLINE { dot[i][v] += (by16[i][v] >> 4) + (by256[i][v] >> 8); });
  });
}

/// Multiplies one block of MT rows of x, from `row` on, by the same block of the panels, and adds the products to the
/// sums.
template <NumberType Type, class Blocks, int MT, int V>
QUIRE_INLINE inline void AddBlock(const IntegerRows<int16_t>& x, int64_t row, int64_t block, const Blocks& blocks,
                                  TileSums<MT, V>& sums) {
  IntVec dot[MT][V];
  Unrolled<MT>([&](auto i) QUIRE_INLINE {
    const IntVec begin = BeginWith<OffsetOf<Type>(Blocks{})>(x, row + i, block);
    Unrolled<V>([&](auto v) QUIRE_INLINE { dot[i][v] = begin; });
  });
  const int16_t* values = x.values + row * x.cols + block * kQuantBlock;
  if constexpr (!Blocks::kUnpacked && MT <= kRowsInPlace && !Block<Type>::kIsBytes) {
    AddInPlace<Type>(values, x.cols, blocks, dot);
  } else {
    ForPairs<Type, V>(blocks, [&](int pair, const PairVec(&w)[V]) QUIRE_INLINE {
      Unrolled<MT>([&](auto i) QUIRE_INLINE {
        const auto both = reinterpret_cast<PairVec>(IntVec{} + LoadAs<int32_t>(values + i * x.cols + 2 * pair));
        Unrolled<V>([&](auto v) QUIRE_INLINE { AddPairs(dot[i][v], w[v], both); });
      });
    });
  }
  AddScaled<Type>(x, row, block, blocks, dot, sums);
}

template <NumberType Type, bool unpacks>
void MatmulOf(const PanelProduct& p, const IntegerRows<int16_t>& x) {
  ForBlocks<Type, unpacks, kPairs * sizeof(PairVec)>(
      p,
      [&]<int V>(const PanelBlocks& blocks, std::byte* to) QUIRE_INLINE {
        ForPairs<Type, V>(blocks, [&](int pair, const PairVec(&w)[V]) QUIRE_INLINE {
          Unrolled<V>([&](auto v) QUIRE_INLINE {
            const PairVec lifted = w[v] + kLift<Type>;
            __builtin_memcpy(to + (pair * V + v) * static_cast<int>(sizeof(PairVec)), &lifted, sizeof(PairVec));
          });
        });
      },
      [&](int64_t row, int64_t block, const auto& blocks, auto& sums)
          QUIRE_INLINE { AddBlock<Type>(x, row, block, blocks, sums); });
}

}  // namespace

void MatmulInt16(const PanelProduct& p, const IntegerRows<int16_t>& x) {
  WithType(p.weight.type, [&]<NumberType Type>() {
    constexpr bool kUnpacks = !Block<Type>::kIsBytes;
    p.m < kLeastUnpackedRows ? MatmulOf<Type, false>(p, x) : MatmulOf<Type, kUnpacks>(p, x);
  });
}

}  // namespace quire::kernels::QUIRE_ISA
