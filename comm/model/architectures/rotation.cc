#include "comm/model/architectures/rotation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "comm/base/error.h"

namespace quire::architectures {

double YarnAttention(double scale, double mscale) { return scale <= 1 ? 1 : 0.1 * mscale * std::log(scale) + 1; }

namespace {

void ReadYarn(const HfConfig& scaling, Rope& rope) {
  const double mscale = scaling.Real("mscale", 0), all = scaling.Real("mscale_all_dim", 0);
  const double usual = mscale != 0 && all != 0 ? YarnAttention(rope.factor, mscale) / YarnAttention(rope.factor, all)
                                               : YarnAttention(rope.factor, 1);
  rope.scaling = RopeScaling::kYarn;
  rope.attention_factor = scaling.Real("attention_factor", usual);
  const auto or_else = [](double value, double otherwise) { return value != 0 ? value : otherwise; };
  rope.beta_fast = or_else(scaling.Real("beta_fast", 0), rope.beta_fast);
  rope.beta_slow = or_else(scaling.Real("beta_slow", 0), rope.beta_slow);
  rope.truncate = scaling.Flag("truncate", true);
}

void ReadLongRope(const HfConfig& scaling, Rope& rope) {
  const double grown = std::log(rope.factor) / std::log(rope.original_max_position);
  rope.scaling = RopeScaling::kLongRope;
  rope.attention_factor = scaling.Real("attention_factor", rope.factor <= 1 ? 1 : std::sqrt(1 + grown));
  for (const auto& [key, divisors] :
       {std::pair{"short_factor", &rope.divisors}, {"long_factor", &rope.long_divisors}}) {
    for (const double number : scaling.Reals(key)) divisors->push_back(static_cast<float>(number));
    if (divisors->empty()) Fail("{}: {} is missing", scaling.path(), key);
  }
  rope.factor = 1;
}

void ReadLlama3(const HfConfig& scaling, Rope& rope) {
  rope.scaling = RopeScaling::kLlama3;
  rope.low_frequency_factor = scaling.Real("low_freq_factor", 1);
  rope.high_frequency_factor = scaling.Real("high_freq_factor", 4);
}

/// Returns the number of rotated dimensions as Rope stores it: 0 means all dimensions. `part`: the rotated part of a
/// head. Throws Error unless `part` is above 0 and at most 1.
int64_t RotatedDims(double part, int64_t head_dim, const std::string& path) {
  if (!(part > 0 && part <= 1)) Fail("{}: a partial_rotary_factor of {} is out of range", path, part);
  return part == 1 ? 0 : static_cast<int64_t>(static_cast<double>(head_dim) * part);
}

/// Returns the F32 vector with this name; empty when the file has none. Throws Error when the tensor is not a vector of
/// `count` F32 numbers.
std::vector<float> VectorOf(const GgufConfig& config, const char* name, int64_t count) {
  const auto found = config.file().tensors.find(name);
  if (found == config.file().tensors.end()) return {};
  const Tensor& tensor = found->second;
  const size_t held = tensor.data.size() / sizeof(float);
  if (tensor.type != NumberType::kF32 || tensor.data.size() % sizeof(float) != 0 || std::cmp_not_equal(held, count))
    Fail("{}: {} must hold {} F32 numbers", config.path(), name, count);
  std::vector<float> numbers(held);
  std::memcpy(numbers.data(), tensor.data.data(), tensor.data.size());
  return numbers;
}

void ReadScaling(const GgufConfig& config, Rope& rope) {
  rope.original_max_position =
      static_cast<double>(config.Count("rope.scaling.original_context_length", config.Count("context_length")));
  const std::string type = config.Text("rope.scaling.type", "none");
  if (!rope.long_divisors.empty()) {
    if (type != "none" && type != "longrope")
      Fail("{}: longrope and {} together are not supported", config.path(), type);
    rope.scaling = RopeScaling::kLongRope;
    rope.attention_factor = config.Real("rope.scaling.attn_factor", 1);
  } else if (type == "linear") {
    rope.factor = config.Real("rope.scaling.factor");
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.factor = config.Real("rope.scaling.factor");
    rope.attention_factor = config.Real("rope.scaling.attn_factor", 1) * YarnAttention(rope.factor, 1);
    rope.beta_fast = config.Real("rope.scaling.yarn_beta_fast", rope.beta_fast);
    rope.beta_slow = config.Real("rope.scaling.yarn_beta_slow", rope.beta_slow);
  } else if (type != "none") {
    Fail("{}: rope scaling of type {} is not supported", config.path(), type);
  }
}

}  // namespace

Rope RopeFromHf(const HfConfig& config, int64_t head_dim, const RopeHabits& habits) {
  RopeHabits said = habits;
  said.theta = config.Real("rope_theta", habits.theta);
  if (habits.partial > 0) said.partial = config.Real("partial_rotary_factor", habits.partial);
  const char* key = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.Has(key)) {
    Rope rope;
    rope.theta = said.theta;
    rope.rotated_dims = said.partial > 0 ? RotatedDims(said.partial, head_dim, config.path()) : 0;
    return rope;
  }
  const HfConfig scaling(config.At(key), config.path() + ": " + key);
  if (habits.by_kind && (scaling.Has("full_attention") || scaling.Has("sliding_attention"))) return {};
  return RopeFromHf(config, scaling, head_dim, said);
}

Rope RopeFromHf(const HfConfig& config, const HfConfig& scaling, int64_t head_dim, const RopeHabits& habits) {
  Rope rope;
  rope.theta = scaling.Real("rope_theta", habits.theta);
  if (habits.partial > 0) {
    rope.rotated_dims = RotatedDims(scaling.Real("partial_rotary_factor", habits.partial), head_dim, scaling.path());
  }
  std::string type = scaling.Text("rope_type", scaling.Text("type", "default"));
  if (habits.calls_longrope_otherwise && (type == "su" || type == "yarn")) type = "longrope";
  if (habits.sections_agree) {
    scaling.Has("mrope_section");
    if (type == "mrope") type = "default";  // the type's name in older files
  }
  if (const double alpha = habits.alpha_stretches ? scaling.Real("alpha", 0) : 0; type == "dynamic" && alpha != 0) {
    if (!(alpha > 0) || head_dim <= 2) Fail("{}: alpha = {} is out of range", scaling.path(), alpha);
    const auto dims = static_cast<double>(head_dim);
    rope.theta *= std::pow(alpha, dims / (dims - 2));
    type = "default";
  }
  if (type == "default") {
    scaling.RefuseWhatNobodyRead();
    return rope;
  }
  // The outer object (`config`) has precedence over `scaling`. If neither object has the key, the default is
  // max_position_embeddings.
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const auto made_for = static_cast<double>(config.Count("max_position_embeddings"));
  rope.original_max_position = config.Real(kOriginal, scaling.Real(kOriginal, made_for));
  const bool grows = type == "yarn" || type == "longrope";
  rope.factor = scaling.Real("factor", grows ? made_for / rope.original_max_position : 1);
  if (habits.queries_grow) rope.query_growth = scaling.Real("llama_4_scaling_beta", 0);
  if (type == "llama3") {
    ReadLlama3(scaling, rope);
  } else if (type == "yarn") {
    ReadYarn(scaling, rope);
  } else if (type == "longrope") {
    ReadLongRope(scaling, rope);
  } else if (type == "proportional" && habits.proportional) {
    const double part = scaling.Real("partial_rotary_factor", 1);
    if (!(part >= 0 && part <= 1)) Fail("{}: a partial_rotary_factor of {} is out of range", scaling.path(), part);
    rope.turning_pairs = static_cast<int64_t>(std::floor(part * static_cast<double>(head_dim) / 2));
  } else if (type != "linear") {
    Fail("{} of type {} is not supported", scaling.path(), type);
  }
  scaling.RefuseWhatNobodyRead();
  return rope;
}

std::optional<RopesOfKinds> RopesOfKindsFromHf(const HfConfig& config, int64_t head_dim, double full_theta,
                                               double sliding_theta, double partial) {
  if (!config.Has("rope_parameters")) return std::nullopt;
  const std::string path = config.path() + ": rope_parameters";
  const HfConfig kinds(config.At("rope_parameters"), path);
  if (!kinds.Has("full_attention") && !kinds.Has("sliding_attention")) return std::nullopt;
  const auto rope_of = [&](const char* kind, double theta) {
    if (!kinds.Has(kind)) return Rope{.theta = theta};
    const HfConfig scaling(kinds.At(kind), path + ": " + kind);
    return RopeFromHf(config, scaling, head_dim, {.theta = theta, .partial = partial});
  };
  return RopesOfKinds{rope_of("full_attention", full_theta), rope_of("sliding_attention", sliding_theta)};
}

std::vector<bool> RotatingLayersFromHf(const HfConfig& config, size_t count) {
  const std::vector<double> listed = config.RealsOfLayers("no_rope_layers", count);
  const int64_t interval = config.Count("no_rope_layer_interval", kUsualRotationInterval);
  if (interval < 1) Fail("{}: no_rope_layer_interval = {} is out of range", config.path(), interval);
  std::vector<bool> rotates(count);
  for (size_t i = 0; i < count; ++i)
    rotates[i] = listed.empty() ? static_cast<int64_t>(i + 1) % interval != 0 : listed[i] != 0;
  return rotates;
}

Rope RopeFromGguf(const GgufConfig& config, int64_t head_dim) {
  Rope rope;
  const int64_t rotated = config.Count("rope.dimension_count", head_dim);
  if (rotated < 1) Fail("{}: {} rotated dimensions", config.path(), rotated);
  rope.rotated_dims = rotated == head_dim ? 0 : rotated;
  rope.theta = config.Real("rope.freq_base", rope.theta);
  rope.divisors = VectorOf(config, kRopeDivisors, rotated / 2);
  if (rope.divisors.empty()) rope.divisors = VectorOf(config, kShortDivisors, rotated / 2);
  rope.long_divisors = VectorOf(config, kLongDivisors, rotated / 2);
  ReadScaling(config, rope);
  return rope;
}

}  // namespace quire::architectures
