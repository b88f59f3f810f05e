#pragma once

#include "comm/collective/device_collective.h"
#include "kernels/rms_norm.h"

namespace quire {

/// Device collectives that know the op every sum of a layer is followed by.
class NormingCollective : public DeviceCollective {
 public:
  /// kernels::RmsNorm with the sum over ranks of `partial` for its delta; norm.delta is not looked at. `partial` is
  /// [num_tokens, hidden] and of no use afterwards.
  virtual void AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) = 0;
};

}  // namespace quire
