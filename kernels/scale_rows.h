#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// rows[t, i] *= factors[of_row[t]].
struct ScaleRowsParams {
  float* rows;            // [num_rows, columns], contiguous
  const int32_t* of_row;  // [num_rows] index of each row's factor
  const float* factors;
  int64_t num_rows;
  int64_t columns;
};
void ScaleRows(const CpuStream& stream, const ScaleRowsParams& params);

}  // namespace quire::kernels
