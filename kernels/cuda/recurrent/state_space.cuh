#pragma once

#include "kernels/cuda/recurrent/head_state.cuh"
#include "kernels/state_space.h"

namespace quire::kernels {

/// The recurrence of Mamba-2's state space, as a Rule of HeadStateKernel.
template <class T>
struct StateSpaceRule {
  using Params = StateSpaceParams;
  static constexpr bool kNorms = false;

  static __device__ int64_t KeyHead(const Params& p, int64_t head) { return (p.first_head + head) / p.heads_per_key; }

  static __device__ HeadGates Gates(const Params& p, int64_t t, int64_t head) {
    const T a = simt::Global<const T>(static_cast<const T*>(p.steps))[t * p.row_stride + head];
    const float rate = simt::Global<const float>(p.rate)[head], bias = simt::Global<const float>(p.bias)[head];
    const float step = Softplus(simt::ToFloat(a) + bias);
    return {step, simt::Exp(-rate * step)};
  }

  template <int kRows>
  static __device__ float Change(const HeadColumn<kRows>&, const simt::SharedArray<float>&, int64_t, float value,
                                 const HeadGates& gates) {
    return gates.rate * value;
  }

  static __device__ float Out(const Params& p, int64_t head, float recalled, float value) {
    const float skip = simt::Global<const float>(p.skip)[head];
    return recalled + skip * value;
  }
};

}  // namespace quire::kernels
