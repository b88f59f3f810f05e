#pragma once

#include "kernels/cpu/isa/panel.h"
#include "kernels/cpu/isa/panel_block.h"
#include "kernels/cpu/isa/rounding.h"

// Products of a block of quantised weights and 16-bit or 8-bit activations x are added up as integers. The functions
// here give the start values of these sums, and convert the sums to floats.
namespace quire::kernels::QUIRE_ISA {

/// kNibbleOffset: the offset of a type's stored nibbles. kLift: the number added when nibbles of q4_0 are unpacked, so
/// that they have the same offset (kRaised) as bytes.
template <NumberType Type>
inline constexpr int kNibbleOffset = Type == NumberType::kQ4_0 ? 8 : 0;
template <NumberType Type>
inline constexpr int kLift = Type == NumberType::kQ4_0 ? kRaised - kNibbleOffset<Type> : 0;

template <NumberType Type>
constexpr int OffsetOf(const PanelBlocks&) {
  return Block<Type>::kIsBytes ? kRaised : kNibbleOffset<Type>;
}
template <NumberType Type>
constexpr int OffsetOf(const UnpackedBlocks&) {
  return Block<Type>::kHasMinimum ? 0 : kRaised;
}

/// Returns the start value of a block's integer sums. Every integer of the weight contains `offset` in addition; the
/// start value cancels its contribution. (A float addition after the sums would take as long as a product of 64 bytes.)
template <int offset, class T>
QUIRE_INLINE inline IntVec BeginWith(const IntegerRows<T>& x, int64_t row, int64_t block) {
  if constexpr (offset == 0) return IntVec{} + kBegin<T>;
  const int32_t begin = x.begins[row * (x.cols / kQuantBlock) + block];
  return IntVec{} + (offset == kRaised ? begin : kBegin<T> + (begin - kBegin<T>) / (kRaised / offset));
}

/// Multiplies a block's integer sums `dot` with one row of x by the scales, and adds the results to a vector of sums. d
/// and m: the weights' scales and minima (Block). `at`: index of the row's block in x.
template <NumberType Type, class T>
QUIRE_INLINE inline void AddScaled(const IntegerRows<T>& x, int64_t at, IntVec dot, Vec d, Vec m, Vec& sum) {
  const Vec scale = Splat(x.scales[at]);
  Vec product;
  if constexpr (kBegin<T> != 0) {
    product = MulAdd(reinterpret_cast<Vec>(dot), scale, Splat(x.lifts[at]));
  } else {
    product = __builtin_convertvector(dot, Vec) * scale;
  }
  sum = MulAdd(product, d, sum);
  if constexpr (Block<Type>::kHasMinimum) sum = MulAdd(m, Splat(x.sums[at]), sum);
}

/// Multiplies one block's integer sums of all rows and vectors of a tile by the scales, and adds the results to `sums`.
template <NumberType Type, int MT, int V, class T>
QUIRE_INLINE inline void AddScaled(const IntegerRows<T>& x, int64_t row, int64_t block, const PanelBlocks& w,
                                   const IntVec (&dot)[MT][V], TileSums<MT, V>& sums) {
  const int64_t blocks = x.cols / kQuantBlock, at = row * blocks + block;
  Unrolled<V>([&](auto v) QUIRE_INLINE {
    const Vec d = Block<Type>::Head(w, 0, v), m = Block<Type>::kHasMinimum ? Block<Type>::Head(w, 1, v) : Vec{};
    Unrolled<MT>([&](auto i) QUIRE_INLINE { AddScaled<Type>(x, at + i * blocks, dot[i][v], d, m, sums.sum[i][v]); });
  });
}

}  // namespace quire::kernels::QUIRE_ISA
