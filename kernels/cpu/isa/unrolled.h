#pragma once

#include <cstdint>

#define QUIRE_INLINE __attribute__((always_inline))

namespace quire::kernels::QUIRE_ISA {

/// Unrolled<N>(f) calls f(0) .. f(N - 1) with compile-time constants, so that arrays indexed by the argument stay in
/// registers. (gcc 12 unrolls ordinary loops too late for that.)
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

/// Calls run.template operator()<rows>() for a number of rows in 1..MT that is known only at run time.
template <int MT, class Run>
void WithRows(int64_t rows, const Run& run) {
  if constexpr (MT > 1) {
    if (rows < MT) return WithRows<MT - 1>(rows, run);
  }
  run.template operator()<MT>();
}

}  // namespace quire::kernels::QUIRE_ISA
