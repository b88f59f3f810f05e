#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// head = head / rms(head) * weight * silu(gate) in place, for each head of each row.
struct GatedNormParams {
  NumberType dtype;     // CPU: kF32; CUDA: any IsFloat type
  void* heads;          // [num_tokens, num_heads, head_dim], contiguous
  const void* gates;    // [num_tokens, num_heads * head_dim], rows gate_stride numbers apart
  const float* weight;  // [head_dim]
  int64_t num_tokens;
  int64_t num_heads;
  int64_t head_dim;
  int64_t gate_stride;
  float epsilon;  // added to the mean of squares
};
void GatedNorm(const CpuStream& stream, const GatedNormParams& params);
void GatedNorm(const CudaStream& stream, const GatedNormParams& params);

}  // namespace quire::kernels
