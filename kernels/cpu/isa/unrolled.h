#pragma once

#include <cstdint>

#define QUIRE_INLINE __attribute__((always_inline))

namespace quire::kernels::QUIRE_ISA {

/// Calls f(0) .. f(N - 1) with constants, one after another in the code: arrays that are only indexed so live in
/// registers. (gcc 12 unrolls such loops too late for that.)
template <int I>
struct Index {
  static constexpr int kValue = I;
  constexpr operator int() const { return I; }
};
template <int N, class F>
[[gnu::always_inline]] inline void Unrolled(const F& f) {
  if constexpr (N > 0) {
    Unrolled<N - 1>(f);
    f(Index<N - 1>{});
  }
}

/// Calls run.template operator()<rows>() for a number of rows, 1..MT, that is known only now.
template <int MT, class Run>
void WithRows(int64_t rows, const Run& run) {
  if constexpr (MT > 1) {
    if (rows < MT) return WithRows<MT - 1>(rows, run);
  }
  run.template operator()<MT>();
}

}  // namespace quire::kernels::QUIRE_ISA
