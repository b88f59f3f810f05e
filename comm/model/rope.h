#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

/// How the frequencies of rotation follow from theta.
enum class RopeScaling : uint8_t {
  kLinear,    // all are divided by Rope::factor
  kLlama3,    // long wavelengths are stretched by factor, short ones kept, and between there is a ramp
  kYarn,      // the same by numbers of turns within original_max_position (arXiv 2309.00071)
  kLongRope,  // each has a divisor of its own, another one where long sequences are served (arXiv 2402.13753)
};

/// How positions rotate queries and keys.
struct Rope {
  double theta = 10000;
  int64_t rotated_dims = 0;  // the first so many dimensions of each head rotate; 0: all
  RopeScaling scaling = RopeScaling::kLinear;
  double factor = 1;
  double attention_factor = 1;  // cosines and sines are multiplied by it
  /// Llama 3: wavelengths beyond original_max_position / low_frequency_factor are stretched, those within
  /// original_max_position / high_frequency_factor are kept.
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  /// YaRN: frequencies that turn more often than beta_fast within original_max_position are kept, those that turn less
  /// often than beta_slow are divided by factor; `truncate` rounds the two places outwards to whole frequencies.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  double original_max_position = 8192;
  /// Queries at position p are multiplied by 1 + query_growth * ln(1 + floor(p / original_max_position)).
  double query_growth = 0;
  int64_t turning_pairs = -1;        // the first so many pairs of dimensions turn, the others keep still; -1: all turn
  std::vector<float> divisors;       // divides frequency i as well (GGUF's rope_freqs); empty for none
  std::vector<float> long_divisors;  // kLongRope: instead, where sequences beyond original_max_position are served
};

/// Throws Error beginning with `path` when a number is out of its range.
void CheckRope(const Rope& rope, const std::string& path);

/// How long a sequence such positions reach, of a model that says it was made for `declared`.
double ReachOf(const Rope& rope, int64_t declared);

/// Every field as text.
std::string TextOf(const Rope& rope);

/// Inverse frequency of rotation i in fp32, the way HF computes it: [rotated_dims / 2]. `max_position` is the longest
/// sequence that is served: long-context factors hold for all sequences or for none, so that a token's numbers do not
/// depend on how long its sequence becomes.
std::vector<float> RopeFrequencies(const Rope& rope, int64_t rotated_dims, int64_t max_position);

}  // namespace quire
