#pragma once

#include <vector>

#include "comm/model/model_spec.h"

namespace quire {

/// Returns the table of rotations, [max_position, rotated_dims]: for each position first the cosines of its
/// rotated_dims / 2 angles, then the sines. With `of_queries`, cosines and sines are also multiplied by the factor by
/// which the model scales queries at the position.
std::vector<float> RopeTable(const ModelSpec& spec, int64_t rope, int64_t max_position, bool of_queries = false);

/// Returns how many numbers RopeTable returns.
int64_t RopeTableSize(const ModelSpec& spec, int64_t rope, int64_t max_position);

}  // namespace quire
