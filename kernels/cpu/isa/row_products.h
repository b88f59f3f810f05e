#pragma once

#include "kernels/cpu/isa/row_block.h"
#include "kernels/cpu/isa/unrolled.h"

// Sums of products of rows (one row per lane) with numbers that all rows share.
namespace quire::kernels::QUIRE_ISA {

/// acc[s, v] += numbers[k, s] * rows[k, v] for k from `begin` to `end` - 1, in order. seen(k, v, sum without k, sum
/// with k) selects the new sum.
template <int S, int V, class Seen>
QUIRE_INLINE inline void AddProducts(const float* numbers, int64_t stride, const float* rows, int64_t begin,
                                     int64_t end, const Seen& seen, Vec (&acc)[S][V]) {
  for (int64_t k = begin; k < end; ++k) {
    Vec row[V];
    Unrolled<V>([&](auto v) QUIRE_INLINE { row[v] = Load(rows + k * kBlockRows + v * kLanes); });
    Unrolled<S>([&](auto s) QUIRE_INLINE {
      const Vec number = Splat(numbers[k * stride + s]);
      Unrolled<V>([&](auto v) QUIRE_INLINE { acc[s][v] = seen(k, v, acc[s][v], MulAdd(number, row[v], acc[s][v])); });
    });
  }
}

/// acc[s, v] += the products of groups of four bytes: signed numbers[k, s], unsigned rows[k, v].
template <int S, int V>
QUIRE_INLINE inline void AddByteProducts(const int32_t* numbers, int64_t stride, const float* rows, int64_t begin,
                                         int64_t end, IntVec (&acc)[S][V]) {
  for (int64_t k = begin; k < end; ++k) {
    CellVec row[V];
    Unrolled<V>([&](auto v) QUIRE_INLINE { row[v] = LoadAs<CellVec>(rows + k * kBlockRows + v * kLanes); });
    Unrolled<S>([&](auto s) QUIRE_INLINE {
      const IntVec number = IntVec{} + numbers[k * stride + s];
      Unrolled<V>([&](auto v) QUIRE_INLINE { AddByteQuads(acc[s][v], row[v], number); });
    });
  }
}

inline constexpr auto kSeenByAll = [](int64_t, int, Vec, Vec with) QUIRE_INLINE { return with; };

}  // namespace quire::kernels::QUIRE_ISA
