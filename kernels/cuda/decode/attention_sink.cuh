#pragma once

#include <simt/device.cuh>

namespace quire::kernels {

/// Returns what a head's attention sink (a score without a value) adds to a sum of softmax weights that are relative to
/// 2^max. Returns 0 without sinks. The sink is added last, once a row's largest score is known. If the sink far exceeds
/// that score, the sum becomes infinite and the result 0.
__device__ inline float SinkWeight(const float* sinks, int64_t head, float max) {
  if (sinks == nullptr) return 0;
  const float sink = simt::Global<const float>(sinks)[head];
  return simt::Exp2(sink * 1.44269504f - max);
}

}  // namespace quire::kernels
