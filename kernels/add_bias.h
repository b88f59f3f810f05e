#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// rows[t, i] += bias[i].
struct AddBiasParams {
  float* rows;        // [num_tokens, columns], row_stride floats apart
  const float* bias;  // [columns]
  int64_t num_tokens;
  int64_t columns;
  int64_t row_stride;
};
void AddBias(const CpuStream& stream, const AddBiasParams& params);

}  // namespace quire::kernels
