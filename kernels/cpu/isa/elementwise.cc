#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// out may be x.
void NormRow(const float* x, const float* weight, float* out, int64_t count, float epsilon) {
  const int64_t whole = count / kLanes * kLanes;
  Vec squares = {};
  for (int64_t i = 0; i < whole; i += kLanes) squares += Load(x + i) * Load(x + i);
  if (whole < count) {
    const Vec tail = LoadPart(x + whole, count - whole);
    squares += tail * tail;
  }
  const float scale = 1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(count) + epsilon);
  for (int64_t i = 0; i < whole; i += kLanes) Store(out + i, Load(x + i) * scale * Load(weight + i));
  for (int64_t i = whole; i < count; ++i) out[i] = x[i] * scale * weight[i];
}

}  // namespace

void RmsNormRows(const RmsNormParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    NormRow(p.x + row * p.hidden, p.weight, p.out + row * p.hidden, p.hidden, p.epsilon);
  }
}

void HeadNormRows(const HeadNormParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t h = 0; h < p.num_heads; ++h) {
      float* head = p.heads + row * p.row_stride + h * p.head_dim;
      NormRow(head, p.weight, head, p.head_dim, p.epsilon);
    }
  }
}

void AddBiasRows(const AddBiasParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* out = p.rows + row * p.row_stride;
    for (int64_t i = 0; i < p.columns; ++i) out[i] += p.bias[i];
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
