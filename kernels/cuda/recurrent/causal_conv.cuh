#pragma once

#include "kernels/causal_conv.h"
#include "kernels/cuda/recurrent/state_cursor.cuh"

namespace quire::kernels {

/// The kernel of CausalConv. The grid is (sequences, pieces of the channels). A thread computes one channel of a
/// sequence for all of its new tokens. The convolution's inputs stay in registers. Tokens are loaded in groups, so that
/// their loads overlap; the same instructions compute each token, wherever it is in its group.
template <class T>
struct CausalConvKernel {
  using Params = CausalConvParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 128, kAtOnce = 8;

  /// The taps and inputs of one channel. The newest tap is last. If there are fewer taps than entries, the first
  /// entries are unused.
  struct Channel {
    float weight[kMaxTaps], in[kMaxTaps];
    float bias;
  };

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t sequence = simt::BlockX(), channel = simt::BlockY() * kThreads + simt::ThreadX();
    if (channel >= p.channels) return;
    const SequenceRows rows = RowsOf(p.state, sequence);
    Channel c;
    LoadWeights(p, channel, c);
    ForState(p, sequence, channel, !rows.from_zeros, [&](int tap, const simt::Global<float>& pool, int64_t at) {
      const float kept = pool[at];
      c.in[tap] = kept;
    });
    for (int64_t t = rows.begin; t < rows.end; t += kAtOnce) {
      Convolve(p, channel, t, static_cast<int>(simt::Min<int64_t>(kAtOnce, rows.end - t)), c);
    }
    ForState(p, sequence, channel, rows.keeps,
             [&](int tap, const simt::Global<float>& pool, int64_t at) { pool[at] = c.in[tap]; });
  }

  static __device__ void LoadWeights(const Params& p, int64_t channel, Channel& c) {
    const simt::Global<const float> weight(p.weight), bias(p.bias);
    const int first = kMaxTaps - static_cast<int>(p.taps);
#pragma unroll
    for (int tap = 0; tap < kMaxTaps; ++tap) {
      c.in[tap] = c.weight[tap] = 0;
      if (tap < first) continue;
      const float factor = weight[(tap - first) * p.channels + channel];
      c.weight[tap] = factor;
    }
    c.bias = 0;
    if (p.bias == nullptr) return;
    const float added = bias[channel];
    c.bias = added;
  }

  /// If `there`, calls body(tap, pool, index) for each input of the channel that the state stores: the inputs of all
  /// taps but the oldest. Before the next token, input `tap` moves to tap - 1.
  template <class Body>
  static __device__ void ForState(const Params& p, int64_t sequence, int64_t channel, bool there, const Body& body) {
    if (!there) return;
    const simt::Global<float> pool(reinterpret_cast<float*>(p.state.pool));
    const int oldest = kMaxTaps - static_cast<int>(p.taps) + 1;
    StateCursor cursor(p.state, sequence, channel * 4);
#pragma unroll
    for (int tap = 1; tap < kMaxTaps; ++tap) {
      if (tap < oldest) continue;
      if (tap > oldest) cursor.Advance(p.channels * 4);
      body(tap, pool, cursor.index());
    }
  }

  /// Computes tokens [t, t + count). Before and after, c.in[1 ..] holds the inputs of the last tokens.
  static __device__ void Convolve(const Params& p, int64_t channel, int64_t t, int count, Channel& c) {
    const simt::Global<const T> x(static_cast<const T*>(p.x)), in_gate(static_cast<const T*>(p.in_gate)),
        out_gate(static_cast<const T*>(p.out_gate));
    const simt::Global<T> out(static_cast<T*>(p.out));
    float inputs[kAtOnce], gates[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      inputs[i] = 0, gates[i] = 1;
      if (i >= count) continue;
      const int64_t at = (t + i) * p.x_stride + channel;
      const T input = x[at];
      inputs[i] = simt::ToFloat(input);
      if (p.in_gate != nullptr) {
        const T gate = in_gate[at];
        inputs[i] *= simt::ToFloat(gate);
      }
      if (p.out_gate != nullptr) {
        const T gate = out_gate[at];
        gates[i] = simt::ToFloat(gate);
      }
    }
    const int first = kMaxTaps - static_cast<int>(p.taps);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (i >= count) break;
#pragma unroll
      for (int tap = 0; tap + 1 < kMaxTaps; ++tap) c.in[tap] = c.in[tap + 1];
      c.in[kMaxTaps - 1] = inputs[i];
      float y = c.bias;
#pragma unroll
      for (int tap = 0; tap < kMaxTaps; ++tap) {
        if (tap >= first) y += c.weight[tap] * c.in[tap];
      }
      if (p.silu) y /= 1 + simt::Exp(-y);
      out[(t + i) * p.out_stride + channel] = simt::FromFloat<T>(y * gates[i]);
    }
  }
};

}  // namespace quire::kernels
