#pragma once

#include "kernels/packed_weight.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// y = x * weight^T, for several weights that share x: their rows follow each other in a row of y.
/// Plain types: x in fp32, fp32 accumulation; a weight in fp16 or bf16 gives the same bits as that weight in fp32.
/// q* types: every 32 numbers of x are rounded to 16-bit integers with one scale of their own; the products of a block
/// are summed exactly in int32, the blocks in fp32.
/// Batch-invariant: y[i, j] depends on x[i, :] and row j of its weight alone, bit for bit, whatever m, the thread count
/// or the position of the row.
struct MatmulParams {
  const float* x;  // [m, cols], rows x_stride floats apart
  int64_t x_stride;
  const PackedWeight* weights;  // [num_weights], all of the same cols
  int64_t num_weights;
  float* y;  // [m, rows of all weights], rows y_stride floats apart
  int64_t y_stride;
  int64_t m;
};
void Matmul(const CpuStream& stream, const MatmulParams& params);

}  // namespace quire::kernels
