#pragma once

#include "kernels/cap_logits.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/sum_squares.h"

namespace quire::kernels {

/// The kernel of SumSquares: one thread block per row.
template <class T>
struct SumSquaresKernel {
  using Params = SumSquaresParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * 4) * 2;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const simt::Global<const T> row =
        simt::Global<const T>(static_cast<const T*>(p.rows)) + simt::BlockX() * p.row_stride;
    simt::SharedArena arena;
    const simt::SharedArray<float> of_queries = arena.template Take<float>(kWarps);
    const simt::SharedArray<float> of_keys = arena.template Take<float>(kWarps);
    const float queries = BlockReduce<kWarps>(PartOf(row, 0, p.query_count), of_queries, SumOf{});
    const float keys = BlockReduce<kWarps>(PartOf(row, p.first_key, p.key_count), of_keys, SumOf{});
    if (simt::ThreadX() != 0) return;
    const simt::Global<float> squares(p.squares);
    squares[simt::BlockX() * 2] = queries;
    squares[simt::BlockX() * 2 + 1] = keys;
  }

  static __device__ float PartOf(const simt::Global<const T>& row, int64_t first, int64_t count) {
    float squares = 0;
    for (int64_t i = simt::ThreadX(); i < count; i += kThreads) {
      const T stored = row[first + i];
      squares += simt::ToFloat(stored) * simt::ToFloat(stored);
    }
    return squares;
  }
};

/// The kernel of CapLogits. The grid is (num_rows, pieces of a row): one number per thread.
struct CapLogitsKernel {
  using Params = CapLogitsParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 1;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = simt::BlockY() * kThreads + simt::ThreadX();
    if (i >= p.columns) return;
    const simt::Global<float> logits(p.logits);
    const int64_t at = simt::BlockX() * p.row_stride + i;
    const float scaled = logits[at] * p.scale;
    logits[at] = p.cap > 0 ? p.cap * simt::Tanh(scaled / p.cap) : scaled;
  }
};

}  // namespace quire::kernels
