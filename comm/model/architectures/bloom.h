#pragma once

#include <vector>

#include "comm/model/weight_spec.h"

namespace quire::architectures {

/// Returns the weights that BLOOM and Falcon share, including the biases that the model has. The norm of the embeddings
/// and the two norms of a parallel block with separate norms are not included.
std::vector<WeightSpec> BloomWeights(const ModelSpec& spec);

}  // namespace quire::architectures
