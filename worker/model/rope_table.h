#pragma once

#include <vector>

#include "comm/model/model_spec.h"

namespace quire {

/// [max_position, rotated_dims]: half as many cosines of a position's angles, then as many sines. That of queries
/// multiplies them by what they grow by.
std::vector<float> RopeTable(const ModelSpec& spec, int64_t rope, int64_t max_position, bool of_queries = false);

}  // namespace quire
