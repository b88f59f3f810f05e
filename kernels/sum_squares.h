#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// squares[t, 0] = the sum of squares of row t's first query_count numbers (queries); squares[t, 1] = the sum of
/// squares of the row's key_count numbers from first_key on (keys). This is one rank's part of a norm over the heads of
/// all ranks, which WideNorm (CPU) or RopeKvWrite (CUDA) completes.
struct SumSquaresParams {
  NumberType dtype;    // CPU: kF32; CUDA: any IsFloat type
  const void* rows;    // [num_tokens, at least first_key + key_count]
  int64_t row_stride;  // numbers between rows
  int64_t num_tokens;
  int64_t query_count;           // number of query columns, from the start of the row
  int64_t first_key, key_count;
  float* squares;                // [num_tokens, 2]
};
void SumSquares(const CpuStream& stream, const SumSquaresParams& params);
void SumSquares(const CudaStream& stream, const SumSquaresParams& params);

}  // namespace quire::kernels
