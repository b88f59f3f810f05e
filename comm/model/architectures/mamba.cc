#include "comm/model/architectures/mamba.h"

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"

namespace quire::architectures {

namespace {

/// Throws Error when HF would bound the time steps. transformers 5 writes infinity as an object; null as the upper
/// limit also means that there is no bound.
void RequireUnboundedSteps(const HfConfig& config) {
  constexpr const char* kKey = "time_step_limit";
  if (!config.Has(kKey)) return;
  const Json& limits = config.At(kKey);
  const bool unbounded = limits.is_array() && limits.size() == 2 && limits[0] == 0 &&
                         (limits[1].is_null() || limits[1] == Json{{"__float__", "Infinity"}});
  if (!unbounded) Fail("{}: {} other than 0 to infinity is not supported", config.path(), kKey);
}

}  // namespace

constexpr StateSpaceKeys kMambaKeys = {.taps = "mamba_d_conv",
                                       .groups = "mamba_n_groups",
                                       .heads = "mamba_n_heads",
                                       .state_size = "mamba_d_state",
                                       .head_size = "mamba_d_head",
                                       .taps_bias = "mamba_conv_bias"};

Recurrence StateSpaceFromHf(const HfConfig& config, const StateSpaceKeys& keys) {
  RequireUnboundedSteps(config);
  Recurrence recurrence = {.taps = config.Count(keys.taps, 4),
                           .key_heads = config.Count(keys.groups, 1),
                           .value_heads = config.Count(keys.heads),
                           .key_dim = config.Count(keys.state_size),
                           .taps_bias = config.Flag(keys.taps_bias, true)};
  const bool automatic = config.Has(keys.head_size) && config.At(keys.head_size) == "auto";
  if (automatic && recurrence.value_heads > 0) {
    recurrence.value_dim = config.Count("mamba_expand", 2) * config.Count("hidden_size") / recurrence.value_heads;
  } else {
    recurrence.value_dim = config.Count(keys.head_size);
  }
  return recurrence;
}

Recurrence StateSpaceFromGguf(const GgufConfig& config, const ModelSpec& spec) {
  const auto first = std::ranges::find_if(spec.layers, &LayerSpec::has_state_space) - spec.layers.begin();
  Recurrence recurrence = StateHeadsFromGguf(config, config.Count("ssm.group_count", 1));
  recurrence.taps_bias = Has(config, Role::kStateValueTapsBias, first);
  return recurrence;
}

void SetStateSpaces(const HfConfig& config, const std::vector<std::string>& kinds, ModelSpec& spec) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == "mamba" || kinds[i] == "linear_attention") {
      spec.layers[i].mixer = Mixer::kStateSpace;
    } else if (kinds[i] != "attention" && kinds[i] != "full_attention") {
      Fail("{}: layer_types: \"{}\" is not supported", config.path(), kinds[i].substr(0, 100));
    }
  }
}

constexpr StateSpaceNames kMambaNames = {.in = "model.layers.{}.mamba.in_proj.weight",
                                         .taps = "model.layers.{}.mamba.conv1d.weight",
                                         .taps_bias = "model.layers.{}.mamba.conv1d.bias",
                                         .rate = "model.layers.{}.mamba.A_log",
                                         .step_bias = "model.layers.{}.mamba.dt_bias",
                                         .skip = "model.layers.{}.mamba.D",
                                         .norm = "model.layers.{}.mamba.norm.weight",
                                         .out = "model.layers.{}.mamba.out_proj.weight"};

void AddStateSpaceWeights(const ModelSpec& spec, const StateSpaceNames& names, std::vector<WeightSpec>& weights) {
  using enum Axis;
  if (spec.num_state_layers() == 0) return;
  const auto fused = [](Role role, const char* name, Axis rows, Axis cols) {
    return WeightSpec{role, name, rows, cols, false, Fusion::kInOrder};
  };
  std::vector<WeightSpec> mine = {fused(Role::kStateGate, names.in, kStateValues, kHidden),
                                  fused(Role::kStateValue, names.in, kStateValues, kHidden),
                                  fused(Role::kStateKey, names.in, kStateKeys, kHidden),
                                  fused(Role::kStateQuery, names.in, kStateKeys, kHidden),
                                  fused(Role::kStateDecay, names.in, kStateHeads, kHidden),
                                  fused(Role::kStateValueTaps, names.taps, kStateValues, kTaps),
                                  fused(Role::kStateKeyTaps, names.taps, kStateKeys, kTaps),
                                  fused(Role::kStateQueryTaps, names.taps, kStateKeys, kTaps),
                                  {Role::kStateRate, names.rate, kStateHeads, kOne},
                                  {Role::kStateDecayBias, names.step_bias, kStateHeads, kOne},
                                  {Role::kStateSkip, names.skip, kStateHeads, kOne},
                                  {Role::kStateNorm, names.norm, kStateValues, kOne},
                                  {Role::kStateOut, names.out, kHidden, kStateValues}};
  if (spec.recurrence.norm == StateNorm::kNone) {
    std::erase_if(mine, [](const WeightSpec& weight) { return weight.role == Role::kStateNorm; });
  }
  if (spec.recurrence.taps_bias) {
    mine.push_back(fused(Role::kStateValueTapsBias, names.taps_bias, kStateValues, kOne));
    mine.push_back(fused(Role::kStateKeyTapsBias, names.taps_bias, kStateKeys, kOne));
    mine.push_back(fused(Role::kStateQueryTapsBias, names.taps_bias, kStateKeys, kOne));
  }
  for (WeightSpec& weight : mine) {
    if (weight.hf == names.in) weight.gguf = kGgufStateIn;
  }
  weights.insert(weights.begin() + 1, mine.begin(), mine.end());
}

}  // namespace quire::architectures
