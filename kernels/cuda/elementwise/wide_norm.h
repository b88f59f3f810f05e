#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/stream.h"

namespace quire::kernels {

/// squares[t] = the sums of the squares of some queries and of some keys of row t: one rank's part of what
/// RopeKvWriteParams::squares is.
struct CudaSumSquaresParams {
  NumberType dtype;
  const void* rows;    // [num_tokens, ..]
  int64_t row_stride;  // elements from row to row
  int64_t num_tokens;
  int64_t query_count;           // from the beginning of the row
  int64_t first_key, key_count;  // elements of the row
  float* squares;                // [num_tokens, 2]
};
void SumSquares(const CudaStream& stream, const CudaSumSquaresParams& params);

/// logits[r, i] = scale * logits[r, i], and with a cap cap * tanh(that / cap).
struct CudaCapLogitsParams {
  float* logits;  // [num_rows, columns], row_stride floats apart
  int64_t num_rows;
  int64_t columns;
  int64_t row_stride;
  float scale;
  float cap;  // 0: none
};
void CapLogits(const CudaStream& stream, const CudaCapLogitsParams& params);

}  // namespace quire::kernels
