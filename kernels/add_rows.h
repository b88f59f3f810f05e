#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// to[t, i] += from[t, i].
struct AddRowsParams {
  float* to;          // [num_tokens, columns]
  const float* from;  // [num_tokens, columns]
  int64_t num_tokens;
  int64_t columns;
};
void AddRows(const CpuStream& stream, const AddRowsParams& params);

}  // namespace quire::kernels
