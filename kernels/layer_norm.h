#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// residual += delta (if delta is set), then out = (residual - mean) / sqrt(variance + epsilon) * weight + bias for
/// each row. Sums are fp32; the norm reads the residual as stored. Without a delta, out may be the residual.
struct LayerNormParams {
  NumberType dtype;    // CPU: kF32; CUDA: any IsFloat type; rows are then multiples of 16 bytes, aligned to 16
  void* residual;      // [num_tokens, hidden]; written only if delta is set
  const void* delta;   // [num_tokens, hidden]; null: nothing to add
  const void* weight;  // [hidden]
  const void* bias;    // [hidden]; null: no bias
  void* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the variance
};
void LayerNorm(const CpuStream& stream, const LayerNormParams& params);
void LayerNorm(const CudaStream& stream, const LayerNormParams& params);

}  // namespace quire::kernels
