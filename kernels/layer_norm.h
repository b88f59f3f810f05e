#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// out = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, row by row. out may be x.
struct LayerNormParams {
  const float* x;       // [num_tokens, hidden]
  const float* weight;  // [hidden]
  const float* bias;    // [hidden], or null
  float* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the variance
};
void LayerNorm(const CpuStream& stream, const LayerNormParams& params);

}  // namespace quire::kernels
