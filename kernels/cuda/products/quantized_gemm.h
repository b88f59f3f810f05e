#pragma once

#include <cstdint>

#include "kernels/cuda/products/quantized_matrix.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// out = scale * x * weight^T for few rows of x, which takes about as long as reading the weight once. The bits of row
/// i of out depend neither on m nor on the other rows of x.
struct QuantizedGemmParams {
  NumberType dtype;  // kF16 or kBF16
  const void* x;     // [m, k], 16-byte aligned
  int64_t x_stride;  // elements between rows, a multiple of 8
  QuantizedMatrix weight;
  void* out;           // [m, n], not x
  int64_t out_stride;  // elements between rows
  int32_t m;           // 1 .. kQuantizedMaxRows
  float scale;
};
void QuantizedGemm(const CudaStream& stream, const QuantizedGemmParams& params);

inline constexpr int32_t kQuantizedMaxRows = 64;

/// out [rows, k] = the rows [first_row, first_row + rows) of the weight, expanded to the dtype.
struct ExpandQuantizedParams {
  NumberType dtype;  // kF16 or kBF16
  QuantizedMatrix weight;
  int64_t first_row, rows;
  void* out;  // 16-byte aligned
};
void ExpandQuantized(const CudaStream& stream, const ExpandQuantizedParams& params);

}  // namespace quire::kernels
