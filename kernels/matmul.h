#pragma once

#include "kernels/packed_weight.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// y = x * weight^T, for several weights that share x: their rows follow each other in a row of y.
/// Plain types: x in fp32, fp32 accumulation; a weight in fp16 or bf16 gives the same bits as that weight in fp32.
/// q* types: every 32 numbers of x are rounded to integers with one scale of their own; the products of a block are
/// summed exactly, the blocks in fp32. The integers have 16 bits; kInt8 has 8 where the processor multiplies that type
/// of weight faster so (4-bit ones with AVX2, all with VNNI).
/// Batch-invariant: y[i, j] depends on x[i, :] and row j of its weight alone, bit for bit, whatever m, the thread count
/// or the position of the row.
/// Without a twin: CUDA multiplies plain weights, by cuda/skinny_gemm.h or the vendor's library.
enum class Activations { kInt16, kInt8 };
struct MatmulParams {
  const float* x;  // [m, cols], rows x_stride floats apart
  int64_t x_stride;
  const PackedWeight* weights;  // [num_weights], all of the same cols
  int64_t num_weights;
  float* y;  // [m, rows of all weights], rows y_stride floats apart
  int64_t y_stride;
  int64_t m;
  Activations activations = Activations::kInt16;
};
void Matmul(const CpuStream& stream, const MatmulParams& params);

}  // namespace quire::kernels
