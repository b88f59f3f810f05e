#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Rounds rows to FP8 E4M3, for products of FP8 with FP8. Each row is scaled so that its largest magnitude becomes 448:
/// number = scale * e4m3. If no magnitude in a row exceeds 2^-100, the row becomes zeros.
struct QuantizeRowsParams {
  NumberType dtype;  // kF16 or kBF16
  const void* x;     // [m, k], 16-byte aligned
  int64_t x_stride;  // elements between rows, a multiple of 8
  int64_t m, k;      // k: a multiple of 16
  void* out;         // bytes [m, k], 16-byte aligned
  float* scales;     // [m]
};
void QuantizeRows(const CudaStream& stream, const QuantizeRowsParams& params);

}  // namespace quire::kernels
