#include "worker/model/rope_table.h"

#include <cmath>

namespace quire {

/// Computes the angles as fp32 products, as HF transformers does, because the rounding of the angles changes the logits
/// visibly at large positions.
std::vector<float> RopeTable(const ModelSpec& spec, int64_t number, int64_t max_position, bool of_queries) {
  const Rope& rope = spec.ropes[static_cast<size_t>(number)];
  const int64_t rotated_dims = RotatedDims(spec, number);
  const std::vector<float> frequencies = RopeFrequencies(rope, rotated_dims, max_position);
  const auto factor = static_cast<float>(rope.attention_factor);
  std::vector<float> table;
  table.reserve(static_cast<size_t>(RopeTableSize(spec, number, max_position)));
  for (int64_t position = 0; position < max_position; ++position) {
    const double turn = std::floor((static_cast<double>(position) + rope.growth_offset) / rope.original_max_position);
    const auto growth = static_cast<float>(of_queries ? 1 + rope.query_growth * std::log(1 + turn) : 1);
    for (const bool sine : {false, true}) {
      for (const float frequency : frequencies) {
        const double angle = static_cast<float>(position) * frequency;
        table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)) * factor * growth);
      }
    }
  }
  return table;
}

int64_t RopeTableSize(const ModelSpec& spec, int64_t rope, int64_t max_position) {
  return max_position * RotatedDims(spec, rope);
}

}  // namespace quire
