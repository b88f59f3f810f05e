#pragma once

#include "comm/collective/device_collective.h"
#include "kernels/rms_norm.h"

namespace quire {

/// Device collectives that also fuse the sum over ranks with the norm after it.
class NormingCollective : public DeviceCollective {
 public:
  /// Computes kernels::RmsNorm whose delta is the sum over ranks of `partial`; norm.delta is ignored. `partial` is
  /// [num_tokens, hidden]; its contents are undefined afterwards.
  virtual void AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) = 0;
};

}  // namespace quire
