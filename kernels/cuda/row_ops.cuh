#pragma once

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/row_ops.h"

// Everything these kernels write, and all of what they read but weights, may be in use by the kernel before them until
// they have waited; what comes after them waits for them, so it may start as soon as it likes.
namespace quire::kernels {

/// The second half of a norm: the row that begins at element `row` of the output is residual * scale * weight. A thread
/// reads what it wrote itself.
template <class T, int kThreads>
__device__ void ScaleRow(const CudaRmsNormParams& p, int64_t row, const simt::Global<T>& residual, float scale) {
  constexpr int kVec = 16 / sizeof(T);
  const simt::Global<const T> weight(static_cast<const T*>(p.weight));
  const simt::Global<T> out = simt::Global<T>(static_cast<T*>(p.out)) + row;
  for (int64_t i = simt::ThreadX() * kVec; i < p.hidden; i += kThreads * kVec) {
    simt::Vec<T, kVec> x = simt::LoadVec<kVec>(residual, i);
    const simt::Vec<T, kVec> w = simt::LoadVec<kVec>(weight, i);
    for (int e = 0; e < kVec; ++e) {
      x.v[e] = simt::FromFloat<T>(simt::ToFloat(x.v[e]) * scale * simt::ToFloat(w.v[e]));
    }
    simt::StoreVec(out, i, x);
  }
}

/// One thread block per row.
template <class T>
struct RmsNormKernel {
  using Params = CudaRmsNormParams;
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

/// Grid (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct GateMulKernel {
  using Params = CudaGateMulParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec;
    if (i >= p.columns) return;
    const int64_t row = simt::BlockX();
    const simt::Global<const T> gate_up(static_cast<const T*>(p.gate_up));
    const int64_t gate_at = row * 2 * p.columns + (p.interleaved ? i / 8 * 16 + i % 8 : i);
    const simt::Vec<T, kVec> gate = simt::LoadVec<kVec>(gate_up, gate_at);
    const simt::Vec<T, kVec> up = simt::LoadVec<kVec>(gate_up, gate_at + (p.interleaved ? 8 : p.columns));
    simt::Vec<T, kVec> out;
    for (int e = 0; e < kVec; ++e) {
      const float g = simt::ToFloat(gate.v[e]);
      out.v[e] = simt::FromFloat<T>(g / (1 + simt::Exp(-g)) * simt::ToFloat(up.v[e]));
    }
    simt::StoreVec(simt::Global<T>(static_cast<T*>(p.out)), row * p.columns + i, out);
  }
};

/// Grid (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct EmbeddingKernel {
  using Params = CudaEmbeddingParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec;
    if (i >= p.hidden) return;
    const int64_t row = simt::Global<const int32_t>(p.token_ids)[simt::BlockX()] - p.first_id;
    simt::Vec<T, kVec> x;
    for (int e = 0; e < kVec; ++e) x.v[e] = simt::FromFloat<T>(0.0f);
    if (row >= 0 && row < p.num_rows) {
      x = simt::LoadVec<kVec>(simt::Global<const T>(static_cast<const T*>(p.table)), row * p.hidden + i);
    }
    simt::StoreVec(simt::Global<T>(static_cast<T*>(p.out)), simt::BlockX() * p.hidden + i, x);
  }
};

}  // namespace quire::kernels
