#pragma once

#include <vector>

#include "comm/model/weight_spec.h"

namespace quire::architectures {

/// Returns the weights that BLOOM and Falcon share. The norm of the embeddings and the two norms of a parallel block
/// with separate norms are not among them. Biases are, as far as the model has them.
std::vector<WeightSpec> BloomWeights(const ModelSpec& spec);

}  // namespace quire::architectures
