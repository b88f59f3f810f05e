#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// out = x / rms(x) * weight, row by row; or, where it adds, out += that.
struct RmsNormParams {
  const float* x;       // [num_tokens, hidden]
  const float* weight;  // [hidden]
  float* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the mean of squares
  bool adds = false;
};
void RmsNorm(const CpuStream& stream, const RmsNormParams& params);

}  // namespace quire::kernels
