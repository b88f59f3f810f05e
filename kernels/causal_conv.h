#pragma once

#include "comm/base/number_type.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The most taps (tokens) of a convolution.
inline constexpr int64_t kMaxTaps = 8;

/// Returns the bytes of one sequence's convolution state.
constexpr int64_t CausalConvStateBytes(int64_t channels, int64_t taps) {
  return (taps - 1) * channels * static_cast<int64_t>(sizeof(float));
}

/// Convolves each channel, at each token, over this token and the taps - 1 tokens before it in its sequence:
///   in[t] = x[t] * in_gate[t]
///   y[t] = bias + sum over i < taps of weight[i] * in[t - taps + 1 + i]
///   out[t] = y[t] * out_gate[t], or silu(y[t]) * out_gate[t]
/// The state holds the last taps - 1 rows of `in`, the oldest first: [taps - 1, channels] fp32. A token's result has
/// the same bits however its sequence is cut into steps.
struct CausalConvParams {
  NumberType dtype;      // CPU: kF32; CUDA: any IsFloat type
  const void* x;         // [num_tokens, channels]; rows of x and of the gates are x_stride numbers apart
  const void* in_gate;   // [num_tokens, channels]; null: no gate
  const void* out_gate;  // [num_tokens, channels]; null: no gate
  int64_t x_stride;
  void* out;  // [num_tokens, channels], rows out_stride numbers apart; may be x
  int64_t out_stride;
  const float* weight;          // [taps, channels]; the oldest token's tap comes first
  const float* bias = nullptr;  // [channels]; null: no bias
  int64_t channels;
  int64_t taps;  // 2 to kMaxTaps
  bool silu;
  StateView state;
};
void CausalConv(const CpuStream& stream, const CausalConvParams& params);
void CausalConv(const CudaStream& stream, const CausalConvParams& params);

}  // namespace quire::kernels
