#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// row = row * silu(gate) in place, and squares[t, g] = the sum of the squares of group g's numbers in row t of the
/// result: one rank's part of a norm over groups of numbers that ranks may share, which WideNorm ends. Groups without
/// numbers here get 0.
struct GateSquaresParams {
  NumberType dtype;   // CPU: kF32; CUDA: a float (IsFloat)
  void* rows;         // [num_tokens, columns] without gaps
  const void* gates;  // likewise, rows gate_stride numbers apart
  int64_t num_tokens;
  int64_t columns;
  int64_t gate_stride;
  int64_t first;       // number of column 0 among the columns of all ranks
  int64_t group_size;  // numbers of a group on all ranks
  int64_t num_groups;
  float* squares;  // [num_tokens, num_groups]

  /// Of group g, the columns that are here: [begin(g), begin(g + 1)).
  int64_t begin(int64_t group) const {
    const int64_t at = group * group_size - first;
    return at < 0 ? 0 : at < columns ? at : columns;
  }
};
void GateSquares(const CpuStream& stream, const GateSquaresParams& params);
void GateSquares(const CudaStream& stream, const GateSquaresParams& params);

}  // namespace quire::kernels
