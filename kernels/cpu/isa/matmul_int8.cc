// Products of quantised weights with x in 8-bit integers, exact within a block: twice as many in an instruction.
#include "kernels/cpu/isa/quantized_panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

template <NumberType Type>
constexpr bool kTaken = kByteProducts == ByteProducts::kAll ||
                        (kByteProducts == ByteProducts::kOfNibbles && !Block<Type>::kIsBytes);

/// Calls use(quad, w) for each of a block's 8 quads of columns, in the order of x; w[V]: those of all rows, bytes
/// without sign: those of q8_0 are raised by 128.
template <NumberType Type, int V, class Use>
QUIRE_INLINE inline void ForQuads(const PanelBlocks& blocks, const Use& use) {
  Unrolled<kQuantBlock / 8>([&](auto group) QUIRE_INLINE {
    CellVec cell[2][V];
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      cell[0][v] = Block<Type>::Cell(blocks, group, 0, v);
      if constexpr (Block<Type>::kIsBytes) {
        cell[1][v] = Block<Type>::Cell(blocks, group, 1, v) ^ 0x8080;
        cell[0][v] ^= 0x8080;
      } else {
        cell[1][v] = (cell[0][v] >> 4) & 0x0f0f;
        cell[0][v] &= 0x0f0f;
      }
    });
    use(2 * group, cell[0]);
    use(2 * group + 1, cell[1]);
  });
}

/// One block of MT rows of x, which begin at `row`, with the same block of panels.
template <NumberType Type, int MT, int V>
QUIRE_INLINE inline void AddBlock(const QuantizedRows<int8_t>& x, int64_t row, int64_t block, const PanelBlocks& blocks,
                                  TileSums<MT, V>& sums) {
  constexpr int kOffset = Type == NumberType::kQ8_0 ? 128 : Type == NumberType::kQ4_0 ? 8 : 0;
  const auto begin = [&](int64_t i)
                         QUIRE_INLINE { return kOffset == 0 ? IntVec{} : BeginWith(x, row + i, block, kOffset); };
  QuadSum quads[MT][V];
  Unrolled<MT>([&](auto i)
                   QUIRE_INLINE { Unrolled<V>([&](auto v) QUIRE_INLINE { quads[i][v] = BeginQuads(begin(i)); }); });
  const int8_t* values = x.values + row * x.cols + block * kQuantBlock;
  ForQuads<Type, V>(blocks, [&](int quad, const CellVec(&w)[V]) QUIRE_INLINE {
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      const IntVec four = IntVec{} + LoadAs<int32_t>(values + i * x.cols + 4 * quad);
      Unrolled<V>([&](auto v) QUIRE_INLINE { AddQuads(quads[i][v], w[v], four); });
    });
  });
  IntVec dot[MT][V];
  Unrolled<MT>([&](auto i) QUIRE_INLINE {
    Unrolled<V>([&](auto v) QUIRE_INLINE { dot[i][v] = Total(quads[i][v], begin(i)); });
  });
  AddScaled<Type>(x, row, block, blocks, dot, sums);
}

template <NumberType Type>
void MatmulOf(const PanelProduct& p, const QuantizedRows<int8_t>& x) {
  if constexpr (kTaken<Type>) {
    ForBlocks<Type>(p, [&](int64_t row, int64_t block, const PanelBlocks& blocks, auto& sums)
                           QUIRE_INLINE { AddBlock<Type>(x, row, block, blocks, sums); });
  } else {
    __builtin_trap();
  }
}

}  // namespace

bool TakesInt8(NumberType type) {
  return type == NumberType::kQ8_0 ? kTaken<NumberType::kQ8_0> : kTaken<NumberType::kQ4_0>;
}

void MatmulInt8(const PanelProduct& p, const QuantizedRows<int8_t>& x) {
  WithType(p.weight.type, [&]<NumberType Type>() { MatmulOf<Type>(p, x); });
}

}  // namespace quire::kernels::QUIRE_ISA
