#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "worker/model/shard.h"

namespace quire {

/// What the first product of a layer that keeps a state is made of, in the order of MixerShape.
std::vector<Role> MixerInRoles(const ModelFiles& files, int64_t layer);
/// What its last product is.
Role MixerOutRole(const ModelFiles& files, int64_t layer);

/// A rank's numbers of a layer that keeps a state, beside its matrices.
struct MixerVectors {
  std::vector<float> taps;                    // [taps, ConvolvedChannels], the oldest token's first
  std::vector<float> taps_bias;               // [ConvolvedChannels]; empty for none
  std::vector<float> rate, decay_bias, skip;  // [local value heads] of heads that keep a state; skip of state spaces
  std::vector<float> norm;                    // [value_dim], or of state spaces [local values]
};
MixerVectors ReadMixerVectors(const ModelFiles& files, const RankShard& shard, int64_t layer);

}  // namespace quire
