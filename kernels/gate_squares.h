#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// row = row * silu(gate) in place; squares[t, g] = the sum of squares of group g's numbers in row t of the result.
/// This is one rank's part of a norm over groups that ranks may share; WideNorm completes the norm. A group without
/// numbers on this rank gets 0.
struct GateSquaresParams {
  NumberType dtype;   // CPU: kF32; CUDA: any IsFloat type
  void* rows;         // [num_tokens, columns], contiguous
  const void* gates;  // [num_tokens, columns], rows gate_stride numbers apart; CPU: null leaves the rows as they are
  int64_t num_tokens;
  int64_t columns;
  int64_t gate_stride;
  int64_t first;       // index of column 0 among the columns of all ranks
  int64_t group_size;  // numbers of a group over all ranks
  int64_t num_groups;
  float* squares;  // [num_tokens, num_groups]

  /// Returns the first column of a group on this rank: group g has the columns [begin(g), begin(g + 1)).
  int64_t begin(int64_t group) const {
    const int64_t at = group * group_size - first;
    return at < 0 ? 0 : at < columns ? at : columns;
  }
};
void GateSquares(const CpuStream& stream, const GateSquaresParams& params);
void GateSquares(const CudaStream& stream, const GateSquaresParams& params);

}  // namespace quire::kernels
