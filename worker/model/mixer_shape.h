#pragma once

#include <cstdint>

#include "worker/model/shard.h"

namespace quire {

/// Widths and offsets, counted in numbers, of the rows that a rank's mixer reads and writes for each token. All layers
/// of a model that keep a recurrent state are alike. An input row of a short convolution has input gates, output gates
/// and inputs, out_width numbers each. An input row of heads that keep a state has queries at offset 0, then the parts
/// at the offsets below, if the mixer has them.
struct MixerShape {
  MixerShape(const ModelSpec& spec, const RankShard& shard);

  Mixer mixer = Mixer::kAttention;  // the mixer of the layers that keep a state; kAttention: no layer keeps one
  int64_t in_width = 0;             // numbers of an input row; 0: this rank has no part, or no layer keeps a state
  // How many numbers an output row has.
  int64_t out_width = 0;
  // Offsets of the parts in an input row, counted in numbers.
  int64_t keys = 0, values = 0, gates = 0, betas = 0, decays = 0;
};

}  // namespace quire
