#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// x = scale * x in place, or x = cap * tanh(scale * x / cap) if there is a cap.
struct CapLogitsParams {
  float* logits;  // [num_rows, columns], row_stride floats apart
  int64_t num_rows;
  int64_t columns;
  int64_t row_stride;
  float scale;
  float cap;  // 0: no cap
};
void CapLogits(const CpuStream& stream, const CapLogitsParams& params);
void CapLogits(const CudaStream& stream, const CapLogitsParams& params);

}  // namespace quire::kernels
