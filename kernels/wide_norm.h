#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// row = row / rms * weight in place, where squares[t * stride] / width is the mean of the squares of the whole row, of
/// which this rank has `columns` numbers (SumSquares). Without a twin: on CUDA it is a part of RopeKvWrite, so that
/// rows are read once.
struct WideNormParams {
  float* rows;           // [num_tokens, columns], row_stride floats apart
  const float* weight;   // [columns]
  const float* squares;  // [num_tokens], `stride` floats apart
  int64_t num_tokens;
  int64_t columns;
  int64_t row_stride;
  int64_t stride;
  int64_t width;  // numbers of a row on all ranks
  float epsilon;  // added to the mean of squares
};
void WideNorm(const CpuStream& stream, const WideNormParams& params);

}  // namespace quire::kernels
