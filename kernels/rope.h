#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// Rotary position embedding in place: dimension i of a head rotates with dimension i + head_dim / 2
/// (the layout of HF checkpoints). Queries and keys are heads of the same rows, so one call does both.
struct RopeParams {
  float* heads;              // [num_tokens, num_heads, head_dim], rows row_stride floats apart
  const float* cos_sin;      // [max_position, head_dim]: head_dim/2 cosines, then head_dim/2 sines
  const int32_t* positions;  // [num_tokens]
  int64_t num_tokens;
  int64_t num_heads;
  int64_t head_dim;  // even
  int64_t row_stride;
};
void Rope(const CpuStream& stream, const RopeParams& params);

}  // namespace quire::kernels
