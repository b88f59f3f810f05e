#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// rows[t, i] *= factors[i].
struct ScaleColumnsParams {
  float* rows;           // [num_tokens, columns], rows row_stride numbers apart
  const float* factors;  // [columns]
  int64_t num_tokens;
  int64_t columns;
  int64_t row_stride;
};
void ScaleColumns(const CpuStream& stream, const ScaleColumnsParams& params);

}  // namespace quire::kernels
