#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// Rotary position embedding in place. In a head's first rotary_dim dimensions, i rotates with i + rotary_dim / 2 (the
/// layout of HF checkpoints); the other dimensions do not change. Queries and keys may be heads of the same rows, so
/// that one call rotates both. CPU only: on CUDA, RopeKvWrite does this.
struct RopeParams {
  float* heads;              // [num_tokens, num_heads, head_dim], rows row_stride floats apart
  const float* cos_sin;      // [max_position, rotary_dim]: rotary_dim / 2 cosines, then as many sines
  const int32_t* positions;  // [num_tokens]
  int64_t num_tokens;
  int64_t num_heads;
  int64_t head_dim;
  int64_t row_stride;
  int64_t rotary_dim;  // even, at most head_dim
};
void Rope(const CpuStream& stream, const RopeParams& params);

}  // namespace quire::kernels
