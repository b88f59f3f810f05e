#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// to[t, i] += from[t, i]; with a from_stride of 0, one row for all: from[i].
struct AddRowsParams {
  NumberType dtype;  // CPU: kF32; CUDA: a float (IsFloat), and then rows and strides are multiples of 16 bytes, and
                     // addresses aligned so
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
