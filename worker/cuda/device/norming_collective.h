#pragma once

#include "comm/collective/device_collective.h"
#include "kernels/rms_norm.h"

namespace quire {

/// Device collectives that can also compute the norm after an all-reduce, where possible in the same kernel.
class NormingCollective : public DeviceCollective {
 public:
  /// Computes kernels::RmsNorm with the sum over all ranks of `partial` in place of norm.delta, which is ignored.
  /// `partial` is [num_tokens, hidden]; its contents are undefined afterwards.
  virtual void AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) = 0;
};

}  // namespace quire
