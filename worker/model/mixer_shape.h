#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/shard.h"

namespace quire {

/// Widths and offsets, counted in numbers, of the rows that a rank's mixer reads and writes for each token. All layers
/// of a model that keep a recurrent state are alike. An input row of a short convolution has input gates, output gates
/// and inputs, out_width numbers each. An input row of heads that keep a state has queries at offset 0, then the parts
/// at the offsets below, if the mixer has them.
struct MixerShape {
  MixerShape(const ModelSpec& spec, const RankShard& shard);

  /// The kind of mixer in layers that keep a recurrent state. Such layers may have attention, too.
  Mixer mixer = Mixer::kAttention;  // kAttention: no layer keeps a state
  int64_t in_width = 0;             // numbers of an input row; 0: this rank has no part, or no layer keeps a state
  // An output row has this many numbers.
  int64_t out_width = 0;
  // Offsets of the parts in an input row, counted in numbers.
  int64_t keys = 0, values = 0, gates = 0, betas = 0, decays = 0;
};

/// Returns the factor of each number of a state space's input row (ProductScales): [in_width]. Returns an empty vector
/// when all factors are 1.
std::vector<float> FactorsOf(const ProductScales& scales, const MixerShape& shape);

}  // namespace quire
