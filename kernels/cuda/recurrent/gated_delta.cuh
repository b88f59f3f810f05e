#pragma once

#include "kernels/cuda/recurrent/head_state.cuh"
#include "kernels/gated_delta.h"

namespace quire::kernels {

/// The recurrence of the gated delta rule, as a Rule of HeadStateKernel.
template <class T>
struct GatedDeltaRule {
  using Params = GatedDeltaParams;
  static constexpr bool kNorms = true;

  static __device__ int64_t KeyHead(const Params& p, int64_t head) { return head / (p.value_heads / p.key_heads); }

  static __device__ HeadGates Gates(const Params& p, int64_t t, int64_t head) {
    const simt::Global<const T> betas(static_cast<const T*>(p.betas)), decays(static_cast<const T*>(p.decays));
    const T b = betas[t * p.gate_stride + head], a = decays[t * p.gate_stride + head];
    const float rate = simt::Global<const float>(p.rate)[head], bias = simt::Global<const float>(p.bias)[head];
    return {1 / (1 + simt::Exp(-simt::ToFloat(b))), simt::Exp(-rate * Softplus(simt::ToFloat(a) + bias))};
  }

  template <int kRows>
  static __device__ float Change(const HeadColumn<kRows>& state, const simt::SharedArray<float>& keys, int64_t at,
                                 float value, const HeadGates& gates) {
    return gates.rate * (value - gates.decay * state.Recall(keys, at));
  }

  static __device__ float Out(const Params&, int64_t, float recalled, float) { return recalled; }
};

}  // namespace quire::kernels
