#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/soft_cap.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

float SquaresOf(const float* x, int64_t count) {
  const int64_t whole = count / kLanes * kLanes;
  Vec squares = {};
  for (int64_t i = 0; i < whole; i += kLanes) squares += Load(x + i) * Load(x + i);
  if (whole < count) {
    const Vec tail = LoadPart(x + whole, count - whole);
    squares += tail * tail;
  }
  return Sum(squares);
}

float NormScale(float squares, int64_t count, float epsilon) {
  return 1.0f / __builtin_sqrtf(squares / static_cast<float>(count) + epsilon);
}

/// out = x * scale * weight, or out += that. out may be x.
template <bool kAdds>
void ScaleRow(const float* x, const float* weight, float* out, int64_t count, float scale) {
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Vec scaled = Load(x + i) * scale * Load(weight + i);
    Store(out + i, kAdds ? Load(out + i) + scaled : scaled);
  }
  for (int64_t i = whole; i < count; ++i) {
    const float scaled = x[i] * scale * weight[i];
    out[i] = kAdds ? out[i] + scaled : scaled;
  }
}

/// out may be x.
void NormRow(const float* x, const float* weight, float* out, int64_t count, float epsilon) {
  ScaleRow<false>(x, weight, out, count, NormScale(SquaresOf(x, count), count, epsilon));
}

Vec GeluTanh(Vec x) { return x / (Exp(-x * (x * x * kGeluCubic + kGeluLinear)) + 1.0f); }

template <class Act>
void GateRow(const float* gate, const float* up, float* out, int64_t columns, const Act& act) {
  int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) Store(out + i, act(Load(gate + i)) * Load(up + i));
  for (; i < columns; ++i) out[i] = act(Splat(gate[i]))[0] * up[i];
}

}  // namespace

void RmsNormRows(const RmsNormParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = p.x + row * p.hidden;
    float* out = p.out + row * p.hidden;
    if (p.adds) {
      ScaleRow<true>(x, p.weight, out, p.hidden, NormScale(SquaresOf(x, p.hidden), p.hidden, p.epsilon));
    } else {
      NormRow(x, p.weight, out, p.hidden, p.epsilon);
    }
  }
}

void SumSquaresRows(const SumSquaresParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row)
    p.squares[row * p.stride] = SquaresOf(p.rows + row * p.row_stride, p.columns);
}

void WideNormRows(const WideNormParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* x = p.rows + row * p.row_stride;
    ScaleRow<false>(x, p.weight, x, p.columns, NormScale(p.squares[row * p.stride], p.width, p.epsilon));
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
  const int64_t half = p.rotary_dim / 2;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* cosine = p.cos_sin + p.positions[row] * p.rotary_dim;
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

void GateMulRows(const GateMulParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* gate = p.gate_up + row * 2 * p.columns;
    const float* up = gate + p.columns;
    float* out = p.out + row * p.columns;
    if (p.activation == Activation::kSilu) {
      GateRow(gate, up, out, p.columns, [](Vec x) QUIRE_INLINE { return x / (Exp(-x) + 1.0f); });
    } else {
      GateRow(gate, up, out, p.columns, [](Vec x) QUIRE_INLINE { return GeluTanh(x); });
    }
  }
}

void CapNumbers(const CapLogitsParams& p, int64_t begin, int64_t end) {
  const auto capped = [&](Vec x) QUIRE_INLINE { return p.cap > 0 ? SoftCap(x * p.scale, p.cap) : x * p.scale; };
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) Store(p.logits + i, capped(Load(p.logits + i)));
  for (; i < end; ++i) p.logits[i] = capped(Splat(p.logits[i]))[0];
}

}  // namespace quire::kernels::QUIRE_ISA
