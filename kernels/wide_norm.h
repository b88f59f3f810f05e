#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Numbers in place, a group of neighbours together: group = group / rms * weight, where squares of the group / width
/// is the mean of the squares of all of it, of which this rank may have a part (SumSquares, GateSquares). Queries and
/// keys are normed so on the CPU; on CUDA RopeKvWrite does that, so that rows are read once.
struct WideNormParams {
  NumberType dtype;      // CPU: kF32; CUDA: a float (IsFloat)
  void* rows;            // [num_tokens, columns], row_stride numbers apart
  const float* weight;   // [columns]
  const float* squares;  // [num_tokens, groups], `stride` floats from row to row
  int64_t num_tokens;
  int64_t columns;
  int64_t row_stride;
  int64_t stride;
  int64_t width;      // numbers of a group on all ranks
  float epsilon;      // added to the mean of squares
  int64_t first = 0;  // number of column 0 among the columns of all ranks: of group first / width
};
void WideNorm(const CpuStream& stream, const WideNormParams& params);
void WideNorm(const CudaStream& stream, const WideNormParams& params);

}  // namespace quire::kernels
