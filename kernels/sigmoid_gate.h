#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// rows[t, i] /= 1 + exp(-gates[t, i]), in place.
struct SigmoidGateParams {
  NumberType dtype;   // CPU: kF32; CUDA: a float (IsFloat), and then rows are multiples of 16 bytes
  void* rows;         // [num_tokens, columns] without gaps
  const void* gates;  // [num_tokens, columns], rows gate_stride numbers apart
  int64_t num_tokens;
  int64_t columns;
  int64_t gate_stride;
};
void SigmoidGate(const CpuStream& stream, const SigmoidGateParams& params);
void SigmoidGate(const CudaStream& stream, const SigmoidGateParams& params);

}  // namespace quire::kernels
