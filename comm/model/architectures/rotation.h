#pragma once

#include <optional>

#include "comm/model/config_reader.h"
#include "comm/model/rope.h"

// How files say what rotates, and how far; families differ in what they leave out.
namespace quire::architectures {

/// What a family has where its files are silent.
struct RopeHabits {
  double theta = 10000;
  /// The part of each head that rotates; 0: all of it, and files that say otherwise are refused.
  double partial = 0;
  bool calls_longrope_otherwise = false;  // "su" and "yarn" are older names of its longrope
  bool queries_grow = false;              // llama_4_scaling_beta says how much
  bool proportional = false;              // a rope_type of "proportional" says how many of the pairs turn
  /// mrope_section may divide what rotates among times, heights and widths: those of text are all its position.
  bool sections_agree = false;
  bool by_kind = false;  // files may have a rope for each kind of layers, which RopesOfKindsFromHf reads
};

/// What config.json says of all layers: rope_parameters or, in older files, rope_scaling and rope_theta beside it.
Rope RopeFromHf(const HfConfig& config, int64_t head_dim, const RopeHabits& habits);

/// What `scaling`, an object of the configuration, says; `theta` and `partial` hold where it does not.
Rope RopeFromHf(const HfConfig& config, const HfConfig& scaling, int64_t head_dim, const RopeHabits& habits);

struct RopesOfKinds {
  Rope full, sliding;  // of layers without a window and with one
};

/// Where rope_parameters has an object for each kind of layers; nothing where it has not.
std::optional<RopesOfKinds> RopesOfKindsFromHf(const HfConfig& config, int64_t head_dim, double full_theta,
                                               double sliding_theta);

/// What YaRN multiplies scores by, as the square of what cosines and sines get, for a context `scale` times as long.
double YarnAttention(double scale, double mscale);

Rope RopeFromGguf(const GgufConfig& config, int64_t head_dim);

/// GGUF tensors that RopeFromGguf reads: Rope::divisors, and those of a longrope.
inline constexpr const char* kRopeDivisors = "rope_freqs.weight";
inline constexpr const char* kShortDivisors = "rope_factors_short.weight";
inline constexpr const char* kLongDivisors = "rope_factors_long.weight";

}  // namespace quire::architectures
