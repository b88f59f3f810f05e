#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "worker/model/shard.h"

namespace quire {

/// Returns the roles of the weights that make up a state layer's input product, in the order of MixerShape's input row.
std::vector<Role> MixerInRoles(const ModelFiles& files, int64_t layer);
/// Returns the role of the weight of a state layer's output product.
Role MixerOutRole(const ModelFiles& files, int64_t layer);

/// A rank's vectors of a layer that keeps a recurrent state. The layer's matrices belong to the backend.
struct MixerVectors {
  std::vector<float> taps;                    // [taps, ConvolvedChannels]; the oldest token's tap comes first
  std::vector<float> taps_bias;               // [ConvolvedChannels]; empty: no bias
  std::vector<float> rate, decay_bias, skip;  // [local value heads] of heads with a state; skip: only in state spaces
  std::vector<float> norm;                    // [value_dim]; in state spaces [local values]
};
MixerVectors ReadMixerVectors(const ModelFiles& files, const RankShard& shard, int64_t layer);

}  // namespace quire
