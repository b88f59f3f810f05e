#pragma once

#include "kernels/stream.h"
#include "kernels/weight.h"

namespace quire::kernels {

/// y = x * weight^T, fp32 accumulation.
/// Batch-invariant: y[i, j] depends on x[i, :] and weight[j, :] alone, bit for bit, whatever m, the thread
/// count or the position of the row; it is the same for a quantised weight and for that weight expanded to fp32.
struct MatmulParams {
  const float* x;  // [m, weight.cols], rows x_stride floats apart
  int64_t x_stride;
  Weight weight;  // [n, k]
  float* y;       // [m, weight.rows], rows y_stride floats apart
  int64_t y_stride;
  int64_t m;
};
void Matmul(const CpuStream& stream, const MatmulParams& params);

}  // namespace quire::kernels
