#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// residual += delta (when delta is given), then out = (residual - mean) / sqrt(variance + epsilon) * weight + bias,
/// row by row. Sums are fp32; the norm is that of the residual as stored. Without a delta, out may be the residual.
struct LayerNormParams {
  NumberType dtype;    // CPU: kF32; CUDA: a float (IsFloat), and then rows are multiples of 16 bytes, and aligned so
  void* residual;      // [num_tokens, hidden], read; also written when delta is given
  const void* delta;   // [num_tokens, hidden], or null
  const void* weight;  // [hidden]
  const void* bias;    // [hidden], or null
  void* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the variance
};
void LayerNorm(const CpuStream& stream, const LayerNormParams& params);
void LayerNorm(const CudaStream& stream, const LayerNormParams& params);

}  // namespace quire::kernels
