#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

void RmsNormRows(const RmsNormParams& p, int64_t row_begin, int64_t row_end) {
  const int64_t whole = p.hidden / kLanes * kLanes;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = p.x + row * p.hidden;
    Vec squares = {};
    for (int64_t i = 0; i < whole; i += kLanes) squares += Load(x + i) * Load(x + i);
    if (whole < p.hidden) {
      const Vec tail = LoadPart(x + whole, p.hidden - whole);
      squares += tail * tail;
    }
    const float scale = 1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(p.hidden) + p.epsilon);
    float* out = p.out + row * p.hidden;
    for (int64_t i = 0; i < p.hidden; ++i) out[i] = x[i] * scale * p.weight[i];
  }
}

void RopeRows(const RopeParams& p, int64_t row_begin, int64_t row_end) {
  const int64_t half = p.head_dim / 2;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* cosine = p.cos_sin + p.positions[row] * p.head_dim;
    const float* sine = cosine + half;
    for (int64_t h = 0; h < p.num_heads; ++h) {
      float* low = p.heads + row * p.row_stride + h * p.head_dim;
      float* high = low + half;
      for (int64_t i = 0; i < half; ++i) {
        const float a = low[i], b = high[i];
        low[i] = a * cosine[i] - b * sine[i];
        high[i] = b * cosine[i] + a * sine[i];
      }
    }
  }
}

void SiluMulRows(const SiluMulParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* gate = p.gate_up + row * 2 * p.columns;
    const float* up = gate + p.columns;
    float* out = p.out + row * p.columns;
    int64_t i = 0;
    for (; i + kLanes <= p.columns; i += kLanes) {
      const Vec g = Load(gate + i);
      Store(out + i, g / (Exp(-g) + 1.0f) * Load(up + i));
    }
    for (; i < p.columns; ++i) out[i] = gate[i] / (Exp1(-gate[i]) + 1.0f) * up[i];
  }
}

}  // namespace quire::kernels::QUIRE_ISA
