#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// rows[t, i] *= sigmoid(gates[t, i / columns_per_gate]) in place.
struct SigmoidGateParams {
  NumberType dtype;   // CPU: kF32; CUDA: any IsFloat type; rows are then multiples of 16 bytes
  void* rows;         // [num_tokens, columns], contiguous
  const void* gates;  // [num_tokens, columns / columns_per_gate], rows gate_stride numbers apart
  int64_t num_tokens;
  int64_t columns;
  int64_t gate_stride;
  int64_t columns_per_gate = 1;  // divides columns. CUDA: 1, with gates aligned to 16 bytes, or a multiple of 16 bytes
};
void SigmoidGate(const CpuStream& stream, const SigmoidGateParams& params);
void SigmoidGate(const CudaStream& stream, const SigmoidGateParams& params);

}  // namespace quire::kernels
