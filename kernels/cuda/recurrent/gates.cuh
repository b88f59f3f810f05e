#pragma once

#include "kernels/cuda/reduce.cuh"
#include "kernels/gate_squares.h"
#include "kernels/gated_norm.h"
#include "kernels/sigmoid_gate.h"
#include "kernels/wide_norm.h"

// Gates and norms of the heads' outputs.
namespace quire::kernels {

/// The kernel of SigmoidGate. The grid is (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct SigmoidGateKernel {
  using Params = SigmoidGateParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec, row = simt::BlockX();
    if (i >= p.columns) return;
    const simt::Global<T> rows(static_cast<T*>(p.rows));
    simt::Vec<T, kVec> x = simt::LoadVec<kVec>(rows, row * p.columns + i), gates;
    const simt::Global<const T> from = simt::Global<const T>(static_cast<const T*>(p.gates)) + row * p.gate_stride;
    if (p.columns_per_gate == 1) {
      gates = simt::LoadVec<kVec>(from, i);
    } else {
      const T gate = from[i / p.columns_per_gate];
      for (int e = 0; e < kVec; ++e) gates.v[e] = gate;
    }
    for (int e = 0; e < kVec; ++e)
      x.v[e] = simt::FromFloat<T>(simt::ToFloat(x.v[e]) / (1 + simt::Exp(-simt::ToFloat(gates.v[e]))));
    simt::StoreVec(rows, row * p.columns + i, x);
  }
};

/// The kernel of GatedNorm. The grid is (num_tokens, groups of heads): one head per warp.
template <class T>
struct GatedNormKernel {
  using Params = GatedNormParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t row = simt::BlockX(), head = simt::BlockY() * kWarps + simt::ThreadX() / 32;
    if (head >= p.num_heads) return;
    const simt::Global<T> numbers = simt::Global<T>(static_cast<T*>(p.heads)) + (row * p.num_heads + head) * p.head_dim;
    const simt::Global<const T> gates =
        simt::Global<const T>(static_cast<const T*>(p.gates)) + (row * p.gate_stride + head * p.head_dim);
    const simt::Global<const float> weight(p.weight);
    const int lane = simt::ThreadX() % 32;
    float squares = 0;
    for (int64_t i = lane; i < p.head_dim; i += 32) {
      const T stored = numbers[i];
      squares += simt::ToFloat(stored) * simt::ToFloat(stored);
    }
    for (int mask = 16; mask > 0; mask /= 2) squares += simt::ShuffleXor(squares, mask);
    const float scale = simt::Rsqrt(squares / static_cast<float>(p.head_dim) + p.epsilon);
    for (int64_t i = lane; i < p.head_dim; i += 32) {
      const T stored = numbers[i], stored_gate = gates[i];
      const float gate = simt::ToFloat(stored_gate), factor = weight[i];
      numbers[i] = simt::FromFloat<T>(simt::ToFloat(stored) * scale * factor * gate / (1 + simt::Exp(-gate)));
    }
  }
};

/// The kernel of GateSquares. The grid is (num_tokens, num_groups): a thread block has one row's part of one group. The
/// thread block squares the numbers as they are stored, rounded to T.
template <class T>
struct GateSquaresKernel {
  using Params = GateSquaresParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * 4);

  static __device__ int64_t Begin(const Params& p, int64_t group) {
    return simt::Min<int64_t>(simt::Max<int64_t>(group * p.group_size - p.first, 0), p.columns);
  }

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t row = simt::BlockX(), group = simt::BlockY();
    const simt::Global<T> rows(static_cast<T*>(p.rows));
    const simt::Global<const T> gates(static_cast<const T*>(p.gates));
    simt::SharedArena arena;
    const simt::SharedArray<float> warps = arena.template Take<float>(kWarps);
    float part = 0;
    for (int64_t i = Begin(p, group) + simt::ThreadX(); i < Begin(p, group + 1); i += kThreads) {
      const T number = rows[row * p.columns + i], stored_gate = gates[row * p.gate_stride + i];
      const float gate = simt::ToFloat(stored_gate);
      const T gated = simt::FromFloat<T>(simt::ToFloat(number) * gate / (1 + simt::Exp(-gate)));
      rows[row * p.columns + i] = gated;
      part += simt::ToFloat(gated) * simt::ToFloat(gated);
    }
    const float squares = BlockReduce<kWarps>(part, warps, SumOf{});
    if (simt::ThreadX() == 0) simt::Global<float>(p.squares)[row * p.num_groups + group] = squares;
  }
};

/// The kernel of WideNorm. The grid is (num_tokens, pieces of a row): one number per thread.
template <class T>
struct WideNormKernel {
  using Params = WideNormParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t row = simt::BlockX(), i = simt::BlockY() * kThreads + simt::ThreadX();
    if (i >= p.columns) return;
    const simt::Global<T> rows(static_cast<T*>(p.rows));
    const float squares = simt::Global<const float>(p.squares)[row * p.stride + (p.first + i) / p.width];
    const float scale = simt::Rsqrt(squares / static_cast<float>(p.width) + p.epsilon);
    const float weight = simt::Global<const float>(p.weight)[i];
    const T number = rows[row * p.row_stride + i];
    rows[row * p.row_stride + i] = simt::FromFloat<T>(simt::ToFloat(number) * scale * weight);
  }
};

}  // namespace quire::kernels
