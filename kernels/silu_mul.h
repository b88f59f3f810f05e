#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// out[t, i] = silu(gate_up[t, i]) * gate_up[t, columns + i], with silu(x) = x / (1 + exp(-x)).
struct SiluMulParams {
  const float* gate_up;  // [num_tokens, 2 * columns]: gates, then ups
  float* out;            // [num_tokens, columns]
  int64_t num_tokens;
  int64_t columns;
};
void SiluMul(const CpuStream& stream, const SiluMulParams& params);

}  // namespace quire::kernels
