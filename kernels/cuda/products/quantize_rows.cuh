#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/products/quantize_rows.h"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels {

/// The kernel of QuantizeRows. The grid is (m): one thread block per row. A thread block reads its row twice; the
/// second time, the row is usually in the first-level cache.
template <class T>
struct QuantizeRowsKernel {
  using Params = QuantizeRowsParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kVec = 8;
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * 4);
  static constexpr float kLargest = 448;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    simt::SharedArena arena;
    const simt::SharedArray<float> warps = arena.template Take<float>(kWarps);
    const int64_t row = simt::BlockX();
    const simt::Global<const T> x = simt::Global<const T>(static_cast<const T*>(p.x)) + row * p.x_stride;
    float largest = 0;
    for (int64_t i = simt::ThreadX() * kVec; i < p.k; i += kThreads * kVec) {
      const simt::Vec<T, kVec> numbers = simt::LoadVec<kVec>(x, i);
#pragma unroll
      for (int e = 0; e < kVec; ++e) largest = simt::Max(largest, Size(simt::ToFloat(numbers.v[e])));
    }
    largest = BlockReduce<kWarps>(largest, warps, MaxOf{});
    // If `largest` is far below 2^-100 (from about 2^-119 down), 448 / largest exceeds fp32's range.
    const float scale = largest / kLargest, factor = largest > 0x1p-100f ? kLargest / largest : 0.0f;
    if (simt::ThreadX() == 0) simt::Global<float>(p.scales)[row] = scale;
    const simt::Global<simt::Fp8E4M3> out(static_cast<simt::Fp8E4M3*>(p.out));
    for (int64_t i = simt::ThreadX() * kVec; i < p.k; i += kThreads * kVec) {
      const simt::Vec<T, kVec> numbers = simt::LoadVec<kVec>(x, i);
      simt::Vec<simt::Fp8E4M3, kVec> rounded;
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        rounded.v[e] = simt::FromFloat<simt::Fp8E4M3>(simt::ToFloat(numbers.v[e]) * factor);
      }
      simt::StoreVec<kVec>(out, row * p.k + i, rounded);
    }
  }

  static __device__ float Size(float x) { return x < 0 ? -x : x; }
};

}  // namespace quire::kernels
