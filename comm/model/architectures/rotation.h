#pragma once

#include <optional>
#include <vector>

#include "comm/model/config_reader.h"
#include "comm/model/rope.h"

// Reads rotary position settings from files.
namespace quire::architectures {

/// A family's defaults and variants of rotary settings.
struct RopeHabits {
  double theta = 10000;
  /// The default fraction of each head that rotates. 0 means that each head rotates as a whole and that other values in
  /// files are refused.
  double partial = 0;
  bool calls_longrope_otherwise = false;  // files may call its longrope "su" or "yarn"
  bool queries_grow = false;              // llama_4_scaling_beta sets the growth
  bool proportional = false;              // rope_type "proportional" sets how many pairs rotate
  /// True when files may have mrope_section, which splits the rotation among times, heights and widths. For text all
  /// three equal the position.
  bool sections_agree = false;
  /// True when a scaling of type "dynamic" with an alpha stretches theta equally for all lengths, as in HunYuan.
  bool alpha_stretches = false;
  bool by_kind = false;  // files may have a rope for each kind of layer; RopesOfKindsFromHf reads them
};

/// Reads the rope of all layers from rope_parameters or, in older files, from rope_scaling and rope_theta. With
/// habits.by_kind, returns a default Rope if the file has a rope for each kind of layer.
Rope RopeFromHf(const HfConfig& config, int64_t head_dim, const RopeHabits& habits);

/// Reads a rope from `scaling`, an object of the configuration. `habits` supplies theta and partial when the object
/// lacks them.
Rope RopeFromHf(const HfConfig& config, const HfConfig& scaling, int64_t head_dim, const RopeHabits& habits);

struct RopesOfKinds {
  Rope full, sliding;  // ropes of layers without a window, and of layers with a window
};

/// Reads rope_parameters if it has an object for each kind of layer; returns nullopt otherwise. `partial`:
/// RopeHabits::partial.
std::optional<RopesOfKinds> RopesOfKindsFromHf(const HfConfig& config, int64_t head_dim, double full_theta,
                                               double sliding_theta, double partial = 0);

/// The default of no_rope_layer_interval: in SmolLM3 and Llama 4, every fourth layer does not rotate.
inline constexpr int64_t kUsualRotationInterval = 4;

/// Returns which of `count` layers rotate. no_rope_layers has a 1 for each layer that rotates; without that list, every
/// `no_rope_layer_interval`-th layer does not rotate.
std::vector<bool> RotatingLayersFromHf(const HfConfig& config, size_t count);

/// Returns YaRN's factor for cosines and sines in a context `scale` times as long as the original one: 1 + 0.1 * mscale
/// * ln(scale), or 1 for a scale of at most 1. Attention scores grow by the factor's square.
double YarnAttention(double scale, double mscale);

Rope RopeFromGguf(const GgufConfig& config, int64_t head_dim);

/// The GGUF tensors that RopeFromGguf reads: Rope::divisors, and the divisors of a longrope.
inline constexpr const char* kRopeDivisors = "rope_freqs.weight";
inline constexpr const char* kShortDivisors = "rope_factors_short.weight";
inline constexpr const char* kLongDivisors = "rope_factors_long.weight";

}  // namespace quire::architectures
