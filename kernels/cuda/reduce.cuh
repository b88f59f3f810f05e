#pragma once

#include <simt/device.cuh>

namespace quire::kernels {

/// Reduces one float per thread of a thread block: first the lanes of a warp by shuffles, then the warps through shared
/// memory. The order is fixed, so that equal inputs give equal bits. `warps` has one float per warp and must not be in
/// use. Every thread of the block must take part, and gets the result. The barrier inside also orders writes that
/// precede the call.
template <int kWarps, class Combine>
__device__ float BlockReduce(float value, const simt::SharedArray<float>& warps, Combine combine) {
  for (int mask = 16; mask > 0; mask /= 2) value = combine(value, simt::ShuffleXor(value, mask));
  if (simt::ThreadX() % 32 == 0) warps[simt::ThreadX() / 32] = value;
  simt::SyncThreads();
  float result = warps[0];
  for (int w = 1; w < kWarps; ++w) result = combine(result, static_cast<float>(warps[w]));
  return result;
}

struct SumOf {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct MaxOf {
  __device__ float operator()(float a, float b) const { return simt::Max(a, b); }
};

}  // namespace quire::kernels
