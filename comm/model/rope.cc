#include "comm/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Returns the weight of rotation i's own frequency under YaRN, from 0 to 1: with 1 the frequency does not change, with
/// 0 it is divided by the factor.
double KeptByYarn(const Rope& rope, int64_t rotated_dims, int64_t i) {
  const auto dims = static_cast<double>(rotated_dims);
  // The index, as a fraction, of the rotation that makes `turns` turns within original_max_position.
  const auto place = [&](double turns) {
    return dims * std::log(rope.original_max_position / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = place(rope.beta_fast), high = place(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  return 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

/// Returns the weight of a rotation's own frequency under Llama 3's scaling, from 0 to 1.
double KeptByLlama3(const Rope& rope, double frequency) {
  const double turns = rope.original_max_position * frequency / (2 * std::numbers::pi);
  const double smooth = (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
  return std::clamp(smooth, 0.0, 1.0);
}

}  // namespace

void CheckRope(const Rope& rope, const std::string& path) {
  if (!(rope.theta >= 1 && rope.theta <= 1e12)) Fail("{}: rope_theta {} is out of range", path, rope.theta);
  if (!(rope.factor >= 1e-3 && rope.factor <= 1e6)) Fail("{}: rope factor {} is out of range", path, rope.factor);
  if (!(rope.attention_factor > 0 && rope.attention_factor <= 1e3)) {
    Fail("{}: the rope's attention factor {} is out of range", path, rope.attention_factor);
  }
  if (!(rope.query_growth >= 0 && rope.query_growth <= 100)) {
    Fail("{}: queries that grow by {} are out of range", path, rope.query_growth);
  }
  if (rope.scaling != RopeScaling::kLinear && !(rope.original_max_position >= 1)) {
    Fail("{}: original_max_position_embeddings must be at least 1", path);
  }
  if (rope.scaling == RopeScaling::kLlama3 &&
      !(rope.low_frequency_factor > 0 && rope.high_frequency_factor > rope.low_frequency_factor)) {
    Fail("{}: high_freq_factor must be above low_freq_factor, and both above 0", path);
  }
  if (rope.scaling == RopeScaling::kYarn &&
      !(rope.beta_slow > 0 && rope.beta_fast >= rope.beta_slow && rope.theta > 1)) {
    Fail("{}: yarn needs beta_fast {} not below beta_slow {}, both above 0, and rope_theta above 1", path,
         rope.beta_fast, rope.beta_slow);
  }
  for (const std::vector<float>* divisors : {&rope.divisors, &rope.long_divisors}) {
    if (!std::ranges::all_of(*divisors, [](float d) { return d >= 1e-6f && d <= 1e9f; })) {
      Fail("{}: a factor that divides a frequency of rotation is out of range", path);
    }
  }
}

double ReachOf(const Rope& rope, int64_t declared) {
  switch (rope.scaling) {
    case RopeScaling::kLinear:
      return rope.factor * static_cast<double>(declared);
    case RopeScaling::kLlama3:
    case RopeScaling::kYarn:
      return rope.factor * rope.original_max_position;
    case RopeScaling::kLongRope:
      break;
  }
  return static_cast<double>(declared);
}

std::string TextOf(const Rope& rope) {
  const auto& [theta, rotated, scaling, factor, attention, low, high, fast, slow, truncate, original, growth, offset,
               turning, divisors, longs] = rope;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {};{}", theta, rotated, static_cast<int>(scaling),
                     factor, attention, low, high, fast, slow, truncate, original, growth, offset, turning,
                     fmt::join(divisors, ","), fmt::join(longs, ","));
}

std::vector<float> RopeFrequencies(const Rope& rope, int64_t rotated_dims, int64_t max_position) {
  const bool is_long =
      rope.scaling == RopeScaling::kLongRope && static_cast<double>(max_position) > rope.original_max_position;
  const std::vector<float>& divisors = is_long ? rope.long_divisors : rope.divisors;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < rotated_dims / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotated_dims);
    const double plain = 1.0f / static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    const double kept = rope.scaling == RopeScaling::kLlama3 ? KeptByLlama3(rope, plain)
                        : rope.scaling == RopeScaling::kYarn ? KeptByYarn(rope, rotated_dims, i)
                                                             : 0;
    double frequency = kept == 1 ? plain : (1 - kept) * plain / rope.factor + kept * plain;
    if (!divisors.empty()) frequency /= divisors[static_cast<size_t>(i)];
    if (rope.turning_pairs >= 0 && i >= rope.turning_pairs) frequency = 0;
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

}  // namespace quire
