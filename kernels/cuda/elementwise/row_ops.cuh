#pragma once

#include "kernels/add_rows.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/embedding.h"
#include "kernels/gate_mul.h"
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"

// An earlier kernel may still use the memory that these kernels read and write (except weights), so each kernel first
// waits for the kernel before it. Each later kernel waits in the same way, so it may start while its predecessor still
// runs. Each kernel has its own full code with thread indices, so that a reader sees in one place what the kernel reads
// and writes.
namespace quire::kernels {

/// Computes the second half of a norm for the row that begins at element `row`: out = residual * scale * weight, or
/// with p.adds the sum that RmsNormParams describes. A thread reads only what it wrote itself.
template <class T, int kThreads>
__device__ void ScaleRow(const RmsNormParams& p, int64_t row, const simt::Global<T>& residual, float scale) {
  constexpr int kVec = 16 / sizeof(T);
  const simt::Global<const T> weight(static_cast<const T*>(p.weight));
  const simt::Global<T> out = simt::Global<T>(static_cast<T*>(p.out)) + row;
  for (int64_t i = simt::ThreadX() * kVec; i < p.hidden; i += kThreads * kVec) {
    simt::Vec<T, kVec> x = simt::LoadVec<kVec>(residual, i);
    const simt::Vec<T, kVec> w = simt::LoadVec<kVec>(weight, i);
    simt::Vec<T, kVec> before;
    if (p.adds) before = simt::LoadVec<kVec>(out, i);
    for (int e = 0; e < kVec; ++e) {
      const float normed = simt::ToFloat(x.v[e]) * scale * simt::ToFloat(w.v[e]);
      x.v[e] = simt::FromFloat<T>(p.adds ? (simt::ToFloat(before.v[e]) + normed) * p.scale : normed);
    }
    simt::StoreVec(out, i, x);
  }
}

/// Adds the numbers from[at], from[at + 1], ... to x.
template <class T, int kVec, class Source>
__device__ void AddVec(const Source& from, int64_t at, simt::Vec<T, kVec>& x) {
  const simt::Vec<T, kVec> more = simt::LoadVec<kVec>(from, at);
  for (int e = 0; e < kVec; ++e) x.v[e] = simt::FromFloat<T>(simt::ToFloat(x.v[e]) + simt::ToFloat(more.v[e]));
}

/// The kernel of LayerNorm: one thread block per row. Computes the mean first, then the variance around it: E[x^2] -
/// mean^2 would lose variances that are small beside the mean. A thread reads only what it wrote itself.
template <class T>
struct LayerNormKernel {
  using Params = LayerNormParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kVec = 16 / sizeof(T);
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * 4) * 2;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t row = simt::BlockX() * p.hidden;
    const simt::Global<T> residual = simt::Global<T>(static_cast<T*>(p.residual)) + row;
    simt::SharedArena arena;
    const simt::SharedArray<float> sums = arena.template Take<float>(kWarps);
    const simt::SharedArray<float> squares = arena.template Take<float>(kWarps);
    const auto n = static_cast<float>(p.hidden);
    const float mean = BlockReduce<kWarps>(AddDelta(p, row, residual), sums, SumOf{}) / n;
    float part = 0;
    for (int64_t i = simt::ThreadX() * kVec; i < p.hidden; i += kThreads * kVec) {
      const simt::Vec<T, kVec> x = simt::LoadVec<kVec>(residual, i);
      for (int e = 0; e < kVec; ++e) part += (simt::ToFloat(x.v[e]) - mean) * (simt::ToFloat(x.v[e]) - mean);
    }
    const float scale = simt::Rsqrt(BlockReduce<kWarps>(part, squares, SumOf{}) / n + p.epsilon);
    Write(p, row, residual, mean, scale);
  }

  /// Adds the delta, if there is one, to the residual. Returns this thread's part of the row's sum.
  static __device__ float AddDelta(const Params& p, int64_t row, const simt::Global<T>& residual) {
    const simt::Global<const T> delta(static_cast<const T*>(p.delta));
    float sum = 0;
    for (int64_t i = simt::ThreadX() * kVec; i < p.hidden; i += kThreads * kVec) {
      simt::Vec<T, kVec> x = simt::LoadVec<kVec>(residual, i);
      if (p.delta != nullptr) {
        AddVec(delta, row + i, x);
        simt::StoreVec(residual, i, x);
      }
      for (int e = 0; e < kVec; ++e) sum += simt::ToFloat(x.v[e]);
    }
    return sum;
  }

  static __device__ void Write(const Params& p, int64_t row, const simt::Global<T>& residual, float mean, float scale) {
    const simt::Global<const T> weight(static_cast<const T*>(p.weight)), bias(static_cast<const T*>(p.bias));
    const simt::Global<T> out = simt::Global<T>(static_cast<T*>(p.out)) + row;
    for (int64_t i = simt::ThreadX() * kVec; i < p.hidden; i += kThreads * kVec) {
      simt::Vec<T, kVec> x = simt::LoadVec<kVec>(residual, i), b;
      const simt::Vec<T, kVec> w = simt::LoadVec<kVec>(weight, i);
      if (p.bias != nullptr) b = simt::LoadVec<kVec>(bias, i);
      for (int e = 0; e < kVec; ++e) {
        const float normed = (simt::ToFloat(x.v[e]) - mean) * scale * simt::ToFloat(w.v[e]);
        x.v[e] = simt::FromFloat<T>(p.bias == nullptr ? normed : normed + simt::ToFloat(b.v[e]));
      }
      simt::StoreVec(out, i, x);
    }
  }
};

/// Returns x * Phi(x), where Phi is the normal distribution's cumulative function. The tail of Phi comes from formula
/// 7.1.26 of Abramowitz and Stegun (error <= 1e-7).
__device__ inline float Gelu(float x) {
  const float size = x < 0 ? -x : x;
  const float t = 1 / (size * (0.3275911f * 0.70710678f) + 1);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float tail = p * t * simt::Exp(x * x * -0.5f) * 0.5f;
  return x * (x < 0 ? tail : 1 - tail);
}

__device__ inline float Activated(float x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + simt::Exp(-x));
    case Activation::kGelu:
      return Gelu(x);
    case Activation::kGeluTanh:
      return x / (1 + simt::Exp(-x * (x * x * kGeluCubic + kGeluLinear)));
    case Activation::kRelu2:
      return x < 0 ? 0 : x * x;
    default:
      return x < 0 ? 0 : x;  // NaN stays NaN
  }
}

/// Returns min(x, most). NaN stays NaN.
__device__ inline float AtMost(float x, float most) { return x > most ? most : x; }

__device__ inline float ClampedGate(float gate, float up, float limit) {
  const float g = AtMost(gate, limit), u = -AtMost(-AtMost(up, limit), limit);
  return g / (1 + simt::Exp(g * -kClampedSlope)) * (u + 1);
}

/// The kernel of Activate. The grid is (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct ActivateKernel {
  using Params = ActivateParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec;
    if (i >= p.columns) return;
    const simt::Global<T> rows(static_cast<T*>(p.rows));
    const int64_t at = simt::BlockX() * p.columns + i;
    simt::Vec<T, kVec> x = simt::LoadVec<kVec>(rows, at), b;
    if (p.bias != nullptr) b = simt::LoadVec<kVec>(simt::Global<const T>(static_cast<const T*>(p.bias)), i);
    for (int e = 0; e < kVec; ++e) {
      const float sum = simt::ToFloat(x.v[e]) + (p.bias == nullptr ? 0.0f : simt::ToFloat(b.v[e]));
      x.v[e] = simt::FromFloat<T>(Activated(sum, p.activation));
    }
    simt::StoreVec(rows, at, x);
  }
};

/// The kernel of AddRows. The grid is (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct AddRowsKernel {
  using Params = AddRowsParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec;
    if (i >= p.columns) return;
    const simt::Global<T> to(static_cast<T*>(p.to));
    const int64_t at = simt::BlockX() * p.to_stride + i;
    simt::Vec<T, kVec> x = simt::LoadVec<kVec>(to, at);
    AddVec(simt::Global<const T>(static_cast<const T*>(p.from)), simt::BlockX() * p.from_stride + i, x);
    simt::StoreVec(to, at, x);
  }
};

/// The kernel of RmsNorm: one thread block per row.
template <class T>
struct RmsNormKernel {
  using Params = RmsNormParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kVec = 16 / sizeof(T);
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * 4);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t row = simt::BlockX() * p.hidden;
    const simt::Global<T> residual = simt::Global<T>(static_cast<T*>(p.residual)) + row;
    const simt::Global<const T> delta = simt::Global<const T>(static_cast<const T*>(p.delta));
    simt::SharedArena arena;
    const simt::SharedArray<float> warp_sum = arena.template Take<float>(kWarps);

    float squares = 0;
    for (int64_t i = simt::ThreadX() * kVec; i < p.hidden; i += kThreads * kVec) {
      simt::Vec<T, kVec> x = simt::LoadVec<kVec>(residual, i);
      if (p.delta != nullptr) {
        const simt::Vec<T, kVec> dx = simt::LoadVec<kVec>(delta, row + i);
        for (int e = 0; e < kVec; ++e) x.v[e] = simt::FromFloat<T>(simt::ToFloat(x.v[e]) + simt::ToFloat(dx.v[e]));
        simt::StoreVec(residual, i, x);
      }
      for (int e = 0; e < kVec; ++e) squares += simt::ToFloat(x.v[e]) * simt::ToFloat(x.v[e]);
    }
    squares = BlockReduce<kWarps>(squares, warp_sum, SumOf{});
    ScaleRow<T, kThreads>(p, row, residual, simt::Rsqrt(squares / static_cast<float>(p.hidden) + p.epsilon));
  }
};

/// The kernel of GateMul. The grid is (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct GateMulKernel {
  using Params = GateMulParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec;
    if (i >= p.columns) return;
    const int64_t row = simt::BlockX();
    const simt::Global<const T> gate_up(static_cast<const T*>(p.gate_up));
    const int64_t gate_at =
        p.up != nullptr ? row * p.columns + i : row * 2 * p.columns + (p.interleaved ? i / 8 * 16 + i % 8 : i);
    const simt::Vec<T, kVec> gate = simt::LoadVec<kVec>(gate_up, gate_at);
    const simt::Vec<T, kVec> up =
        p.up != nullptr ? simt::LoadVec<kVec>(simt::Global<const T>(static_cast<const T*>(p.up)), row * p.up_stride + i)
                        : simt::LoadVec<kVec>(gate_up, gate_at + (p.interleaved ? 8 : p.columns));
    simt::Vec<T, kVec> out;
    for (int e = 0; e < kVec; ++e) {
      const float g = simt::ToFloat(gate.v[e]), u = simt::ToFloat(up.v[e]);
      const bool clamped = p.activation == Activation::kClampedSilu;
      out.v[e] = simt::FromFloat<T>(clamped ? ClampedGate(g, u, p.limit) : Activated(g, p.activation) * u);
    }
    simt::StoreVec(simt::Global<T>(static_cast<T*>(p.out)), row * p.columns + i, out);
  }
};

/// The kernel of Embedding. The grid is (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct EmbeddingKernel {
  using Params = EmbeddingParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec;
    const int64_t hidden = p.table.cols;
    if (i >= hidden) return;
    const int64_t row = simt::Global<const int32_t>(p.token_ids)[simt::BlockX()] - p.first_id;
    simt::Vec<T, kVec> x;
    for (int e = 0; e < kVec; ++e) x.v[e] = simt::FromFloat<T>(0.0f);
    if (row >= 0 && row < p.table.rows) {
      x = simt::LoadVec<kVec>(simt::Global<const T>(reinterpret_cast<const T*>(p.table.data)), row * hidden + i);
    }
    if (p.scale != 1) {
      for (int e = 0; e < kVec; ++e) x.v[e] = simt::FromFloat<T>(simt::ToFloat(x.v[e]) * p.scale);
    }
    const simt::Global<T> out(static_cast<T*>(p.out));
    const int64_t at = simt::BlockX() * hidden + i;
    if (p.adds) AddVec(out, at, x);
    simt::StoreVec(out, at, x);
  }
};

}  // namespace quire::kernels
