// Computes products of quantised weights with x rounded to 8-bit integers. Within a block the products are exact. One
// instruction computes twice as many products as with 16 bits.
#include "kernels/cpu/isa/panel_quads.h"
#include "kernels/cpu/isa/quantized_panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

template <NumberType Type>
constexpr bool kTaken = kByteProducts == ByteProducts::kAll ||
                        (kByteProducts == ByteProducts::kOfNibbles && !Block<Type>::kIsBytes);

/// Multiplies one block of MT rows of x, from `row` on, by the same block of the panels, and adds the products to the
/// sums.
template <NumberType Type, class Blocks, int MT, int V>
QUIRE_INLINE inline void AddBlock(const IntegerRows<int8_t>& x, int64_t row, int64_t block, const Blocks& blocks,
                                  TileSums<MT, V>& sums) {
  const auto begin = [&](int64_t i) QUIRE_INLINE { return BeginWith<OffsetOf<Type>(Blocks{})>(x, row + i, block); };
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

template <NumberType Type, bool unpacks>
void MatmulOf(const PanelProduct& p, const IntegerRows<int8_t>& x) {
  ForBlocks<Type, unpacks, kQuads * sizeof(CellVec)>(
      p, [&]<int V>(const PanelBlocks& blocks, std::byte* to) QUIRE_INLINE { UnpackQuads<Type, V>(blocks, to); },
      [&](int64_t row, int64_t block, const auto& blocks, auto& sums)
          QUIRE_INLINE { AddBlock<Type>(x, row, block, blocks, sums); });
}

/// True if nibbles are unpacked before the products. Byte products are required, because raised nibbles would overflow
/// 16-bit sums.
template <NumberType Type>
constexpr bool kUnpacks = kByteProducts == ByteProducts::kAll && !Block<Type>::kIsBytes;

}  // namespace

bool TakesInt8(NumberType type) {
  return type == NumberType::kQ8_0 ? kTaken<NumberType::kQ8_0> : kTaken<NumberType::kQ4_0>;
}

void MatmulInt8(const PanelProduct& p, const IntegerRows<int8_t>& x) {
  WithType(p.weight.type, [&]<NumberType Type>() {
    if constexpr (!kTaken<Type>) {
      __builtin_trap();
    } else if (kUnpacks<Type> && p.m >= kLeastUnpackedRows) {
      MatmulOf<Type, kUnpacks<Type>>(p, x);
    } else {
      MatmulOf<Type, false>(p, x);
    }
  });
}

}  // namespace quire::kernels::QUIRE_ISA
