#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// to[t, i] += from[t, i]. With from_stride 0, the same row is added to all rows: to[t, i] += from[i].
struct AddRowsParams {
  NumberType dtype;  // CPU: kF32; CUDA: any IsFloat type; rows and strides are then multiples of 16 bytes,
                     // addresses are aligned to 16
  void* to;          // [num_tokens, columns], rows to_stride numbers apart
  const void* from;  // [num_tokens, columns], rows from_stride numbers apart
  int64_t num_tokens;
  int64_t columns;
  int64_t to_stride;
  int64_t from_stride;
};
void AddRows(const CpuStream& stream, const AddRowsParams& params);
void AddRows(const CudaStream& stream, const AddRowsParams& params);

}  // namespace quire::kernels
