#pragma once

#include <cstdint>

#include "worker/model/shard.h"

namespace quire {

/// What a rank's part of a layer that keeps a state takes in of a token and gives, in numbers; all such layers of a
/// model are alike. In a row of what goes in lie,
/// of short convolutions: gates of what goes in, gates of what comes out, inputs: out_width of each;
/// of heads that keep a state: queries at 0, then what stands below, as far as the rule has it.
struct MixerShape {
  MixerShape(const ModelSpec& spec, const RankShard& shard);

  Mixer mixer = Mixer::kAttention;  // of the layers that keep a state; attention where there are none
  int64_t in_width = 0;             // 0: other ranks have all of it, or no layer keeps a state
  int64_t out_width = 0;
  int64_t keys = 0, values = 0, gates = 0, betas = 0, decays = 0;
};

}  // namespace quire
