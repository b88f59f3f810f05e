#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// head = head / rms(head) * weight in place, for each head of each row. A head has the bits that RmsNorm gives for a
/// row that consists of this head. CPU only: on CUDA, RopeKvWrite does this.
struct HeadNormParams {
  float* heads;         // [num_tokens, num_heads, head_dim], rows row_stride floats apart
  const float* weight;  // [head_dim]
  int64_t num_tokens;
  int64_t num_heads;
  int64_t head_dim;
  int64_t row_stride;
  float epsilon;  // added to the mean of squares
};
void HeadNorm(const CpuStream& stream, const HeadNormParams& params);

}  // namespace quire::kernels
