#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// x = scale * x in place; with a cap, cap * tanh(scale * x / cap).
struct CapLogitsParams {
  float* logits;  // [num_rows, columns], row_stride floats apart
  int64_t num_rows;
  int64_t columns;
  int64_t row_stride;
  float scale;
  float cap;  // 0: none
};
void CapLogits(const CpuStream& stream, const CapLogitsParams& params);
void CapLogits(const CudaStream& stream, const CapLogitsParams& params);

}  // namespace quire::kernels
