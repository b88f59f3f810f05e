#pragma once

#include <vector>

#include "comm/model/weight_spec.h"

namespace quire::architectures {

/// What the files of BLOOM and of Falcon, which goes back to it, have in common: embedding, attention, MLP, final norm
/// and head, with the biases that the model has. The norms of layers are not among them.
std::vector<WeightSpec> BloomWeights(const ModelSpec& spec);

}  // namespace quire::architectures
