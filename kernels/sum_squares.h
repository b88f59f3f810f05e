#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// squares[t] = the sums of the squares of some queries and of some keys of row t: one rank's part of a norm over the
/// heads of all ranks, which WideNorm ends on the CPU and RopeKvWrite on CUDA.
struct SumSquaresParams {
  NumberType dtype;    // CPU: kF32; CUDA: a float (IsFloat)
  const void* rows;    // [num_tokens, ..]
  int64_t row_stride;  // numbers from row to row
  int64_t num_tokens;
  int64_t query_count;           // from the beginning of the row
  int64_t first_key, key_count;  // numbers of the row
  float* squares;                // [num_tokens, 2]
};
void SumSquares(const CpuStream& stream, const SumSquaresParams& params);
void SumSquares(const CudaStream& stream, const SumSquaresParams& params);

}  // namespace quire::kernels
