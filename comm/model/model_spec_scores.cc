// Functions of a ModelSpec for the scores of attention: their scale, ALiBi slopes, and buckets of relative positions.
#include <algorithm>
#include <bit>
#include <cmath>

#include "comm/model/model_spec.h"

namespace quire {

std::vector<int64_t> BucketsOfDistances(const RelativeBias& bias) {
  // The first half of the buckets on each side have one distance each. Each further bucket covers a range of distances
  // that is longer by a factor than the range before. The logarithms are floats, as in HF, because rounding decides at
  // the buckets' borders.
  const int64_t side = bias.buckets / 2, exact = side / 2;
  const auto bucket = [&](int64_t distance) {
    if (distance < exact) return distance;
    const float part = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                       static_cast<float>(std::log(static_cast<double>(bias.reach) / static_cast<double>(exact)));
    return std::min(exact + static_cast<int64_t>(part * static_cast<float>(side - exact)), side - 1);
  };
  std::vector<int64_t> buckets;
  for (int64_t distance = -bias.reach; distance <= bias.reach; ++distance)
    buckets.push_back((distance > 0 ? side : 0) + bucket(std::abs(distance)));
  return buckets;
}

std::vector<float> AlibiSlopes(const ModelSpec& spec) {
  std::vector<float> slopes;
  if (spec.position != Position::kAlibi) return slopes;
  const auto whole = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(spec.num_heads)));
  for (int64_t h = 0; h < spec.num_heads; ++h) {
    const auto of_power_of_two = static_cast<double>(h + 1) / static_cast<double>(whole);
    const auto between = static_cast<double>(2 * (h - whole) + 1) / static_cast<double>(2 * whole);
    slopes.push_back(static_cast<float>(std::exp2(-spec.alibi_max_bias * (h < whole ? of_power_of_two : between))));
  }
  return slopes;
}

float AttentionScale(const ModelSpec& spec, const LayerSpec& layer) {
  return spec.attention_scale != 0 ? static_cast<float>(spec.attention_scale)
                                   : 1.0f / std::sqrt(static_cast<float>(layer.head_dim));
}

}  // namespace quire
