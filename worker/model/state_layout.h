#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/shard.h"

namespace quire {

/// The byte layout of a rank's part of one sequence's state: [layers that keep a state][convolution state, state of
/// the heads]. kernels/causal_conv.h and kernels/state_view.h give the sizes of the two parts. Each part begins at
/// a multiple of 64 bytes.
struct StateLayout {
  struct Layer {
    int64_t convolution_at = 0, heads_at = 0;
    int64_t index = 0;  // the layer's index among the rank's layers that keep a state
  };

  StateLayout(const ModelSpec& spec, const RankShard& shard);

  const Layer& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }

  std::vector<Layer> layers;
  int64_t num_kept = 0;  // number of the rank's layers that keep a state
  int64_t bytes = 0;     // bytes of a sequence's state; 0: no layer keeps one, or this rank has no part of it
};

}  // namespace quire
