#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace quire::kernels {

/// out[t, i] = activation(gate of i) * up of i; kClampedSilu says itself what it makes of both.
struct GateMulParams {
  NumberType dtype;     // CPU: kF32; CUDA: a float (IsFloat), and then rows are multiples of 16 bytes, and aligned so
  const void* gate_up;  // [num_tokens, 2 * columns]: gates, then ups
  void* out;            // [num_tokens, columns]
  int64_t num_tokens;
  int64_t columns;
  bool interleaved;  // instead: 8 gates, their 8 ups, and so on (cuda/skinny_gemm.h); columns is a multiple of 8
  Activation activation = Activation::kSilu;
  float limit = 0;  // of kClampedSilu
  /// Ups of another place, rows up_stride numbers apart; gate_up then is [num_tokens, columns], not interleaved, and
  /// may be out.
  const void* up = nullptr;
  int64_t up_stride = 0;
};
void GateMul(const CpuStream& stream, const GateMulParams& params);
void GateMul(const CudaStream& stream, const GateMulParams& params);

}  // namespace quire::kernels
