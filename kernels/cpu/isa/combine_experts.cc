#include <algorithm>

#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// to += factor * from; with `begins`, to = factor * from.
void AddScaled(const float* from, float factor, bool begins, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vec numbers = Load(from + i);
    Store(to + i, begins ? numbers * factor : MulAdd(numbers, Splat(factor), Load(to + i)));
  }
  for (; i < count; ++i) to[i] = (begins ? 0.0f : to[i]) + from[i] * factor;
}

}  // namespace

void CombineExpertsRows(const CombineExpertsParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t t = row_begin; t < row_end; ++t) {
    float* out = static_cast<float*>(p.out) + t * p.columns;
    bool begins = true;
    for (int64_t j = 0; j < p.experts_per_token; ++j) {
      const int64_t pair = t * p.experts_per_token + j, row = p.row_of_pair[pair];
      if (row < 0) continue;
      AddScaled(static_cast<const float*>(p.rows) + row * p.columns, p.weights[pair], begins, out, p.columns);
      begins = false;
    }
    if (begins) std::fill_n(out, p.columns, 0.0f);
    if (p.shared != nullptr) {
      const float gate =
          p.shared_gate == nullptr ? 1.0f : 1.0f / (1.0f + Exp(Splat(-p.shared_gate[t * p.shared_gate_stride]))[0]);
      AddScaled(static_cast<const float*>(p.shared) + t * p.columns, gate, false, out, p.columns);
    }
    for (int64_t i = 0; p.scale != 1 && i < p.columns; ++i) out[i] *= p.scale;
  }
}

}  // namespace quire::kernels::QUIRE_ISA
