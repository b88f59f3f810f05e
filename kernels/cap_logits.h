#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// x = scale * x in place; with a cap, cap * tanh(scale * x / cap).
struct CapLogitsParams {
  float* logits;
  int64_t count;
  float scale;
  float cap;  // 0: none
};
void CapLogits(const CpuStream& stream, const CapLogitsParams& params);

}  // namespace quire::kernels
