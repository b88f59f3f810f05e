#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "comm/model/architecture.h"

// What families some of whose layers are Mamba-2's state spaces have in common.
namespace quire::architectures {

/// Keys of config.json that say their sizes.
struct StateSpaceKeys {
  const char *taps, *groups, *heads, *state_size, *head_size, *taps_bias;
};

/// Throws Error where the file says what is not supported: biases of projections, bounds of steps.
Recurrence StateSpaceFromHf(const HfConfig& config, const StateSpaceKeys& keys);

/// Granite's and Bamba's.
extern const StateSpaceKeys kMambaKeys;

/// The same of GGUF, where some layer of the model has such a state. Throws Error for sizes that contradict each other.
Recurrence StateSpaceFromGguf(const GgufConfig& config, const ModelSpec& spec);

/// Gives layers the mixer that the family's names of their kinds say. Throws Error for other names.
void SetStateSpaces(const HfConfig& config, const std::vector<std::string>& kinds, ModelSpec& spec);

/// Names in safetensors of a state space's weights.
struct StateSpaceNames {
  const char *in, *taps, *taps_bias, *rate, *step_bias, *skip, *norm, *out;
};

/// Names that begin with model.layers.N.mamba: Granite's and Bamba's.
extern const StateSpaceNames kMambaNames;

void AddStateSpaceWeights(const ModelSpec& spec, const StateSpaceNames& names, std::vector<WeightSpec>& weights);

}  // namespace quire::architectures
