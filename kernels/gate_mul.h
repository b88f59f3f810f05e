#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// out[t, i] = activation(gate_up[t, i]) * gate_up[t, columns + i]; kClampedSilu says itself what it makes of both.
struct GateMulParams {
  const float* gate_up;  // [num_tokens, 2 * columns]: gates, then ups
  float* out;            // [num_tokens, columns]
  int64_t num_tokens;
  int64_t columns;
  Activation activation = Activation::kSilu;
  float limit = 0;  // of kClampedSilu
};
void GateMul(const CpuStream& stream, const GateMulParams& params);

}  // namespace quire::kernels
