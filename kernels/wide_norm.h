#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// group = group / rms * weight in place, for each group of neighbouring numbers. The mean of squares is the group's
/// entry of `squares` / width; `squares` covers all ranks, although this rank may hold only a part of a group
/// (SumSquares, GateSquares). On the CPU this also normalises queries and keys. On CUDA, RopeKvWrite does, to read rows
/// only once.
struct WideNormParams {
  NumberType dtype;      // CPU: kF32; CUDA: any IsFloat type
  void* rows;            // [num_tokens, columns], row_stride numbers apart
  const float* weight;   // [columns]
  const float* squares;  // [num_tokens, groups], rows `stride` floats apart
  int64_t num_tokens;
  int64_t columns;
  int64_t row_stride;
  int64_t stride;
  int64_t width;      // numbers of a group over all ranks
  float epsilon;      // added to the mean of squares
  int64_t first = 0;  // index of column 0 among the columns of all ranks; column c is in group (first + c) / width
};
void WideNorm(const CpuStream& stream, const WideNormParams& params);
void WideNorm(const CudaStream& stream, const WideNormParams& params);

}  // namespace quire::kernels
