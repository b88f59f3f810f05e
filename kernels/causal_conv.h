#pragma once

#include "comm/base/number_type.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The longest convolution, in tokens.
inline constexpr int64_t kMaxTaps = 8;

/// Bytes that CausalConv keeps of a sequence.
constexpr int64_t CausalConvStateBytes(int64_t channels, int64_t taps) {
  return (taps - 1) * channels * static_cast<int64_t>(sizeof(float));
}

/// A convolution of every channel by itself along each sequence's tokens, its own and those before:
///   in[t] = x[t] * in_gate[t]
///   y[t] = bias + sum over i < taps of weight[i] * in[t - taps + 1 + i]
///   out[t] = y[t] * out_gate[t], or silu(y[t]) * out_gate[t]
/// The state is the last taps - 1 of `in`, the oldest first: [taps - 1, channels] fp32. A token's result has the same
/// bits however its sequence was cut into steps.
struct CausalConvParams {
  NumberType dtype;      // CPU: kF32; CUDA: a float (IsFloat)
  const void* x;         // [num_tokens, channels], rows x_stride numbers apart, as those of the gates
  const void* in_gate;   // likewise, or null for none
  const void* out_gate;  // likewise, or null for none
  int64_t x_stride;
  void* out;  // [num_tokens, channels], rows out_stride apart; may be x
  int64_t out_stride;
  const float* weight;          // [taps, channels], that of the oldest token first
  const float* bias = nullptr;  // [channels]
  int64_t channels;
  int64_t taps;  // 2 to kMaxTaps
  bool silu;
  StateView state;
};
void CausalConv(const CpuStream& stream, const CausalConvParams& params);
void CausalConv(const CudaStream& stream, const CausalConvParams& params);

}  // namespace quire::kernels
