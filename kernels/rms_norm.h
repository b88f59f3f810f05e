#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// residual += delta (when delta is given), then out = residual / rms(residual) * weight, row by row; or, where it
/// adds, out = (out + that) * scale. Sums are fp32; the norm is that of the residual as stored. Without a delta, out
/// may be the residual on the CPU.
struct RmsNormParams {
  NumberType dtype;    // CPU: kF32; CUDA: a float (IsFloat), and then rows are multiples of 16 bytes, and aligned so
  void* residual;      // [num_tokens, hidden], read; also written when delta is given
  const void* delta;   // [num_tokens, hidden], or null
  const void* weight;  // [hidden]
  void* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the mean of squares
  bool adds = false;
  float scale = 1;  // where it adds
};
void RmsNorm(const CpuStream& stream, const RmsNormParams& params);
void RmsNorm(const CudaStream& stream, const RmsNormParams& params);

}  // namespace quire::kernels
