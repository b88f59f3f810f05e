#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// residual += delta (if delta is set), then out = residual / rms(residual) * weight for each row; with `adds`, out =
/// (out + residual / rms(residual) * weight) * scale. Sums are fp32; the norm reads the residual as stored. Without a
/// delta, out may be the residual on the CPU.
struct RmsNormParams {
  NumberType dtype;    // CPU: kF32; CUDA: any IsFloat type; rows are then multiples of 16 bytes, aligned to 16
  void* residual;      // [num_tokens, hidden]; written only if delta is set
  const void* delta;   // [num_tokens, hidden]; null: nothing to add
  const void* weight;  // [hidden]
  void* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the mean of squares
  bool adds = false;
  float scale = 1;  // used only with adds
};
void RmsNorm(const CpuStream& stream, const RmsNormParams& params);
void RmsNorm(const CudaStream& stream, const RmsNormParams& params);

}  // namespace quire::kernels
