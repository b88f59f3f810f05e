#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/shard.h"

namespace quire {

/// Where the states of a rank's layers are in a sequence's state, in bytes from its beginning: [layers that keep
/// one][what its convolution saw last, the state of its heads]. What each takes is in kernels/causal_conv.h and
/// kernels/state_view.h. Parts begin at multiples of 64 bytes.
struct StateLayout {
  struct Layer {
    int64_t convolution_at = 0, heads_at = 0;
  };

  StateLayout(const ModelSpec& spec, const RankShard& shard);

  const Layer& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }

  std::vector<Layer> layers;
  int64_t bytes = 0;  // of a sequence; 0: no layer keeps a state, or none has a part on this rank
};

}  // namespace quire
