#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace quire::kernels {

/// out[t, i] = activation(gate[t, i]) * up[t, i]. See Activation for kClampedSilu, which combines gate and up
/// differently.
struct GateMulParams {
  NumberType dtype;     // CPU: kF32; CUDA: any IsFloat type; rows are then multiples of 16 bytes, aligned to 16
  const void* gate_up;  // [num_tokens, 2 * columns]: the gates of a row, then its ups
  void* out;            // [num_tokens, columns]
  int64_t num_tokens;
  int64_t columns;
  bool interleaved;  // gate_up holds 8 gates, their 8 ups, and so on (cuda/products/skinny_gemm.h); columns % 8 == 0
  Activation activation = Activation::kSilu;
  float limit = 0;  // the limit of kClampedSilu
  /// Optional separate ups, rows up_stride numbers apart. gate_up then holds only gates, [num_tokens, columns], is not
  /// interleaved, and may equal out.
  const void* up = nullptr;
  int64_t up_stride = 0;
};
void GateMul(const CpuStream& stream, const GateMulParams& params);
void GateMul(const CudaStream& stream, const GateMulParams& params);

}  // namespace quire::kernels
