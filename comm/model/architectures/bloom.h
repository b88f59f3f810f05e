#pragma once

#include <vector>

#include "comm/model/weight_spec.h"

namespace quire::architectures {

/// What the files of BLOOM and of Falcon, which goes back to it, have in common: all but norms of embeddings and those
/// of attention and an MLP side by side that have one each. Biases are there as far as the model has them.
std::vector<WeightSpec> BloomWeights(const ModelSpec& spec);

}  // namespace quire::architectures
