#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// squares[t * stride] = the sum of the squares of row t's first `columns` numbers: one rank's part of a norm whose
/// rows lie on several.
struct SumSquaresParams {
  const float* rows;  // [num_tokens, columns], row_stride floats apart
  float* squares;     // [num_tokens], `stride` floats apart
  int64_t num_tokens;
  int64_t columns;
  int64_t row_stride;
  int64_t stride;
};
void SumSquares(const CpuStream& stream, const SumSquaresParams& params);

/// row = row / rms * weight in place, where squares[t * stride] / width is the mean of the squares of the whole row, of
/// which this rank has `columns` numbers.
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
