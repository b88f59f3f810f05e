#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// residual += delta (when delta is given), then out = residual / rms(residual) * weight, row by row.
struct RmsNormParams {
  float* residual;      // [num_tokens, hidden], read; also written when delta is given
  const float* delta;   // [num_tokens, hidden] or null
  const float* weight;  // [hidden]
  float* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the mean of squares
};
void RmsNorm(const CpuStream& stream, const RmsNormParams& params);

}  // namespace quire::kernels
