#pragma once

#define QUIRE_INLINE __attribute__((always_inline))

namespace quire::kernels::QUIRE_ISA {

/// Calls f(0) .. f(N - 1) with constants, one after another in the code: arrays that are only indexed so live in
/// registers. (gcc 12 unrolls such loops too late for that.)
template <int I>
struct Index {
  constexpr operator int() const { return I; }
};
template <int N, class F>
[[gnu::always_inline]] inline void Unrolled(const F& f) {
  if constexpr (N > 0) {
    Unrolled<N - 1>(f);
    f(Index<N - 1>{});
  }
}

}  // namespace quire::kernels::QUIRE_ISA
