#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Rounds rows to FP8 E4M3, each relative to its largest number, which becomes 448: number = scale * e4m3. A row of
/// nothing beyond 2^-100 becomes zeros. For products of FP8 with FP8.
struct QuantizeRowsParams {
  NumberType dtype;  // kF16 or kBF16
  const void* x;     // [m, k], 16-byte aligned
  int64_t x_stride;  // elements from row to row, a multiple of 8
  int64_t m, k;      // k: a multiple of 16
  void* out;         // bytes [m, k], 16-byte aligned
  float* scales;     // [m]
};
void QuantizeRows(const CudaStream& stream, const QuantizeRowsParams& params);

}  // namespace quire::kernels
