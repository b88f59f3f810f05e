#pragma once

#include "kernels/packed_weight.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// y = x * weight^T for one or more weights that share x; a row of y holds their results side by side. CPU only: CUDA
/// multiplies plain weights (cuda/products/skinny_gemm.h or the vendor's library).
/// With a weight in fp32, fp16 or bf16, x is not rounded, and sums are fp32. A weight in fp16 or bf16 gives the same
/// bits as that weight in fp32.
/// With a weight in q8_0, q4_0 or q4_1, each 32 numbers of x are rounded to integers with one scale. The products of a
/// block are summed exactly, and the blocks in fp32. The integers have 16 bits. With Activations::kInt8 the integers
/// have 8 bits if the processor then multiplies the weight's type faster (4-bit types with AVX2, all with VNNI).
/// Batch-invariant: y[i, j] depends on x[i, :] and row j of its weight alone, bit for bit, whatever m, the number of
/// threads or the position of the row.
enum class Activations { kInt16, kInt8 };
struct MatmulParams {
  const float* x;  // [m, cols], rows x_stride floats apart
  int64_t x_stride;
  const PackedWeight* weights;  // [num_weights], all with the same cols
  int64_t num_weights;
  float* y;  // [m, rows of all weights], rows y_stride floats apart
  int64_t y_stride;
  int64_t m;
  Activations activations = Activations::kInt16;
};
void Matmul(const CpuStream& stream, const MatmulParams& params);

}  // namespace quire::kernels
