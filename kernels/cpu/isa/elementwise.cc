#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/soft_cap.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

float SquaresOf(const float* x, int64_t count) {
  const int64_t whole = count / kLanes * kLanes;
  Vec squares = {};
  for (int64_t i = 0; i < whole; i += kLanes) squares = MulAdd(Load(x + i), Load(x + i), squares);
  if (whole < count) {
    const Vec tail = LoadPart(x + whole, count - whole);
    squares = MulAdd(tail, tail, squares);
  }
  return Sum(squares);
}

float NormScale(float squares, int64_t count, float epsilon) {
  return 1.0f / __builtin_sqrtf(squares / static_cast<float>(count) + epsilon);
}

/// out = x * scale * weight; with kAdds, out = (out + x * scale * weight) * sum_scale. out may be x.
template <bool kAdds>
void ScaleRow(const float* x, const float* weight, float* out, int64_t count, float scale, float sum_scale = 1) {
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Vec scaled = Load(x + i) * scale * Load(weight + i);
    Store(out + i, kAdds ? (Load(out + i) + scaled) * sum_scale : scaled);
  }
  for (int64_t i = whole; i < count; ++i) {
    const float scaled = x[i] * scale * weight[i];
    out[i] = kAdds ? (out[i] + scaled) * sum_scale : scaled;
  }
}

/// Computes out = x / rms(x) * weight for one row; out may be x.
void NormRow(const float* x, const float* weight, float* out, int64_t count, float epsilon) {
  ScaleRow<false>(x, weight, out, count, NormScale(SquaresOf(x, count), count, epsilon));
}

Vec GeluTanh(Vec x) { return x / (Exp(-x * MulAdd(x * x, Splat(kGeluCubic), Splat(kGeluLinear))) + 1.0f); }

template <class Act>
void GateRow(const float* gate, const float* up, float* out, int64_t columns, const Act& act) {
  int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) Store(out + i, act(Load(gate + i)) * Load(up + i));
  for (; i < columns; ++i) out[i] = act(Splat(gate[i]))[0] * up[i];
}

/// Returns min(x, most). NaN stays NaN.
Vec AtMost(Vec x, float most) { return x > Splat(most) ? Splat(most) : x; }

void ClampedGateRow(const float* gate, const float* up, float* out, int64_t columns, float limit) {
  for (int64_t i = 0; i < columns; i += kLanes) {
    const int64_t there = Least(kLanes, columns - i);
    const Vec g = AtMost(there == kLanes ? Load(gate + i) : LoadPart(gate + i, there), limit);
    const Vec u = -AtMost(-AtMost(there == kLanes ? Load(up + i) : LoadPart(up + i, there), limit), limit);
    const Vec result = g / (Exp(g * -kClampedSlope) + 1.0f) * (u + 1.0f);
    __builtin_memcpy(out + i, &result, static_cast<unsigned long>(there) * sizeof(float));
  }
}

void AddRow(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/// Computes the mean first and then the variance around it, because E[x^2] - mean^2 would lose variances that are small
/// compared with the mean.
void LayerNormRow(const LayerNormParams& p, const float* x, float* out) {
  const int64_t count = p.hidden, whole = count / kLanes * kLanes;
  const auto n = static_cast<float>(count);
  const auto *weight = static_cast<const float*>(p.weight), *bias = static_cast<const float*>(p.bias);
  Vec sum = {};
  for (int64_t i = 0; i < whole; i += kLanes) sum += Load(x + i);
  if (whole < count) sum += LoadPart(x + whole, count - whole);
  const float mean = Sum(sum) / n;
  Vec squares = {};
  for (int64_t i = 0; i < whole; i += kLanes) squares = MulAdd(Load(x + i) - mean, Load(x + i) - mean, squares);
  float variance = Sum(squares);
  for (int64_t i = whole; i < count; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const float scale = 1.0f / __builtin_sqrtf(variance / n + p.epsilon);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Vec normed = (Load(x + i) - mean) * scale * Load(weight + i);
    Store(out + i, bias == nullptr ? normed : normed + Load(bias + i));
  }
  for (int64_t i = whole; i < count; ++i) {
    const float normed = (x[i] - mean) * scale * weight[i];
    out[i] = bias == nullptr ? normed : normed + bias[i];
  }
}

/// Returns x * Phi(x). Formula 7.1.26 of Abramowitz and Stegun gives the tail of the normal distribution (error <=
/// 1e-7).
Vec Gelu(Vec x) {
  const Vec size = x < Vec{} ? -x : x;
  const Vec t = 1.0f / (size * (0.3275911f * 0.70710678f) + 1.0f);
  Vec p = Splat(1.061405429f);
  constexpr float kTerms[] = {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
  for (const float term : kTerms) p = MulAdd(p, t, Splat(term));
  const Vec tail = p * t * Exp(x * x * -0.5f) * 0.5f;
  return x * (x < Vec{} ? tail : 1.0f - tail);
}

/// Calls use(f) with the activation as a function f of a vector.
template <class Use>
void WithActivation(Activation activation, const Use& use) {
  switch (activation) {
    case Activation::kSilu:
      return use([](Vec x) QUIRE_INLINE { return x / (Exp(-x) + 1.0f); });
    case Activation::kGelu:
      return use([](Vec x) QUIRE_INLINE { return Gelu(x); });
    case Activation::kGeluTanh:
      return use([](Vec x) QUIRE_INLINE { return GeluTanh(x); });
    case Activation::kRelu2:
      return use([](Vec x) QUIRE_INLINE { return x < Vec{} ? Vec{} : x * x; });
    case Activation::kRelu:
    case Activation::kClampedSilu:                                           // such gates use ClampedGateRow
      return use([](Vec x) QUIRE_INLINE { return x < Vec{} ? Vec{} : x; });  // NaN stays NaN
  }
}

template <class Function>
void ActivateRow(float* x, const float* bias, int64_t count, const Function& function) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t there = Least(kLanes, count - i);
    Vec v = there == kLanes ? Load(x + i) : LoadPart(x + i, there);
    if (bias != nullptr) v += there == kLanes ? Load(bias + i) : LoadPart(bias + i, there);
    const Vec out = function(v);
    __builtin_memcpy(x + i, &out, static_cast<unsigned long>(there) * sizeof(float));
  }
}

}  // namespace

void RmsNormRows(const RmsNormParams& p, int64_t row_begin, int64_t row_end) {
  const auto* weight = static_cast<const float*>(p.weight);
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* x = static_cast<float*>(p.residual) + row * p.hidden;
    float* out = static_cast<float*>(p.out) + row * p.hidden;
    if (p.delta != nullptr) AddRow(static_cast<const float*>(p.delta) + row * p.hidden, x, p.hidden);
    if (p.adds) {
      ScaleRow<true>(x, weight, out, p.hidden, NormScale(SquaresOf(x, p.hidden), p.hidden, p.epsilon), p.scale);
    } else {
      NormRow(x, weight, out, p.hidden, p.epsilon);
    }
  }
}

void SumSquaresRows(const SumSquaresParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = static_cast<const float*>(p.rows) + row * p.row_stride;
    p.squares[row * 2] = SquaresOf(x, p.query_count);
    p.squares[row * 2 + 1] = SquaresOf(x + p.first_key, p.key_count);
  }
}

void WideNormRows(const WideNormParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* x = static_cast<float*>(p.rows) + row * p.row_stride;
    for (int64_t begin = 0, end; begin < p.columns; begin = end) {
      const int64_t group = (p.first + begin) / p.width;
      end = Least((group + 1) * p.width - p.first, p.columns);
      ScaleRow<false>(x + begin, p.weight + begin, x + begin, end - begin,
                      NormScale(p.squares[row * p.stride + group], p.width, p.epsilon));
    }
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

void LayerNormRows(const LayerNormParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* x = static_cast<float*>(p.residual) + row * p.hidden;
    if (p.delta != nullptr) AddRow(static_cast<const float*>(p.delta) + row * p.hidden, x, p.hidden);
    LayerNormRow(p, x, static_cast<float*>(p.out) + row * p.hidden);
  }
}

void ActivateRows(const ActivateParams& p, int64_t row_begin, int64_t row_end) {
  WithActivation(p.activation, [&](const auto& function) {
    for (int64_t row = row_begin; row < row_end; ++row) {
      ActivateRow(static_cast<float*>(p.rows) + row * p.columns, static_cast<const float*>(p.bias), p.columns,
                  function);
    }
  });
}

void AddRowsRows(const AddRowsParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    AddRow(static_cast<const float*>(p.from) + row * p.from_stride, static_cast<float*>(p.to) + row * p.to_stride,
           p.columns);
  }
}

void ScaleColumnsRows(const ScaleColumnsParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* x = p.rows + row * p.row_stride;
    for (int64_t i = 0; i < p.columns; ++i) x[i] *= p.factors[i];
  }
}

void ScaleRowsRows(const ScaleRowsParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float factor = p.factors[p.of_row[row]];
    float* x = p.rows + row * p.columns;
    for (int64_t i = 0; i < p.columns; ++i) x[i] *= factor;
  }
}

void GateMulRows(const GateMulParams& p, int64_t row_begin, int64_t row_end) {
  // Without p.up, gate_up alternates between runs of gates and of ups: p.columns numbers each, or 8 if interleaved.
  const int64_t run = p.interleaved ? 8 : p.columns;
  const auto runs = [&](const auto& multiply) {
    for (int64_t row = row_begin; row < row_end; ++row) {
      if (p.up != nullptr) {
        multiply(static_cast<const float*>(p.gate_up) + row * p.columns,
                 static_cast<const float*>(p.up) + row * p.up_stride, static_cast<float*>(p.out) + row * p.columns);
        continue;
      }
      const float* gate = static_cast<const float*>(p.gate_up) + row * 2 * p.columns;
      float* out = static_cast<float*>(p.out) + row * p.columns;
      for (int64_t i = 0; i < p.columns; i += run) multiply(gate + 2 * i, gate + 2 * i + run, out + i);
    }
  };
  if (p.activation == Activation::kClampedSilu) {
    return runs([&](const float* gate, const float* up, float* out) { ClampedGateRow(gate, up, out, run, p.limit); });
  }
  WithActivation(p.activation, [&](const auto& function) {
    runs([&](const float* gate, const float* up, float* out) { GateRow(gate, up, out, run, function); });
  });
}

void CapNumbers(const CapLogitsParams& p, int64_t begin, int64_t end) {
  const auto capped = [&](Vec x) QUIRE_INLINE { return p.cap > 0 ? SoftCap(x * p.scale, p.cap) : x * p.scale; };
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) Store(p.logits + i, capped(Load(p.logits + i)));
  for (; i < end; ++i) p.logits[i] = capped(Splat(p.logits[i]))[0];
}

}  // namespace quire::kernels::QUIRE_ISA
