#pragma once

#include <vector>

#include "comm/model/weight_spec.h"

namespace quire::architectures {

/// Weights that BLOOM and Falcon share, because Falcon's files follow BLOOM's. Excluded are the norm of the embeddings,
/// and the two norms of a parallel block with separate norms. Biases are included as far as the model has them.
std::vector<WeightSpec> BloomWeights(const ModelSpec& spec);

}  // namespace quire::architectures
