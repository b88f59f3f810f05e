#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

/// The rule by which the rotation frequencies follow from theta.
enum class RopeScaling : uint8_t {
  kLinear,    // all frequencies are divided by Rope::factor
  kLlama3,    // divides low frequencies by factor, leaves high ones unchanged, with a ramp between them
  kYarn,      // frequencies with few turns within original_max_position are divided (arXiv 2309.00071)
  kLongRope,  // each frequency has its own divisor, and another one for long contexts (arXiv 2402.13753)
};

/// Rotary position embedding of queries and keys.
struct Rope {
  double theta = 10000;
  int64_t rotated_dims = 0;  // number of rotated dimensions, the first of each head; 0: all
  RopeScaling scaling = RopeScaling::kLinear;
  double factor = 1;
  double attention_factor = 1;  // multiplies cosines and sines
  /// For Llama 3: wavelengths beyond original_max_position / low_frequency_factor are multiplied by factor; wavelengths
  /// below original_max_position / high_frequency_factor do not change.
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  /// For YaRN: frequencies with more than beta_fast turns within original_max_position do not change; frequencies with
  /// fewer than beta_slow turns are divided by factor. `truncate` rounds the two limits outwards to whole indices.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  double original_max_position = 8192;
  /// Queries at position p are multiplied by
  /// 1 + query_growth * ln(1 + floor((p + growth_offset) / original_max_position)).
  double query_growth = 0, growth_offset = 0;
  int64_t turning_pairs = -1;        // number of dimension pairs that rotate, counted from the first; -1: all
  std::vector<float> divisors;       // divisor of each frequency (GGUF's rope_freqs); empty: none
  std::vector<float> long_divisors;  // for kLongRope: the divisors if max_position exceeds original_max_position
};

/// Throws Error, which begins with `path`, when a number is out of range.
void CheckRope(const Rope& rope, const std::string& path);

/// Returns the length in tokens of the longest sequence that the rotation `rope` allows in a model made for `declared`
/// tokens.
double ReachOf(const Rope& rope, int64_t declared);

/// Returns every field as text, for fingerprints.
std::string TextOf(const Rope& rope);

/// Returns the frequencies of rotation, in radians for each position, in fp32 as HF computes them (inv_freq):
/// [rotated_dims / 2]. `max_position` is the length of the longest sequence that is served. It alone decides whether
/// the divisors for long contexts apply. So the keys of a token do not change when its sequence grows.
std::vector<float> RopeFrequencies(const Rope& rope, int64_t rotated_dims, int64_t max_position);

}  // namespace quire
