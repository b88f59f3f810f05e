// Measures the speed of the products' instructions without loads, stores and loop overhead.
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr int kChains = 10;  // independent sums: more than an instruction's latency times its throughput per cycle

/// Calls add(sum, operand) on kChains independent sums. The compiler treats the operand as new each time, so that it
/// repeats every operation.
template <class SumVec, class Operand, class Add>
void Chains(int64_t rounds, Operand operand, const Add& add) {
  SumVec sum[kChains] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    Unrolled<kChains>([&](auto c) QUIRE_INLINE {
      __asm__ volatile("" : "+v"(operand));
      add(sum[c], operand);
      __asm__ volatile("" : "+v"(sum[c]));
    });
  }
}

}  // namespace

double RunPeak(Arithmetic arithmetic, int64_t rounds) {
  const double lanes = static_cast<double>(rounds) * kChains * kLanes;
  if (arithmetic == Arithmetic::kMultiplyAdd) {
    Chains<Vec>(rounds, Splat(0x1p-20f), [](Vec& sum, Vec x) QUIRE_INLINE { sum = MulAdd(x, x, sum); });
    return lanes * 2;
  }
  if (arithmetic == Arithmetic::kInt16) {
    Chains<IntVec>(rounds, PairVec{} + 1, [](IntVec& sum, PairVec x) QUIRE_INLINE { AddPairs(sum, x, x); });
    return lanes * 4;
  }
  if constexpr (kByteProducts != ByteProducts::kNone) {
    Chains<QuadSum>(rounds, CellVec{},
                    [](auto& sum, CellVec x) QUIRE_INLINE { AddQuads(sum, x, reinterpret_cast<IntVec>(x)); });
    return lanes * 8;
  }
  return 0;
}

}  // namespace quire::kernels::QUIRE_ISA
