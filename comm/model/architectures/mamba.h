#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "comm/model/architecture.h"

// Common parts of families that have Mamba-2 state-space layers.
namespace quire::architectures {

/// The keys of config.json for a state space's sizes.
struct StateSpaceKeys {
  const char *taps, *groups, *heads, *state_size, *head_size, *taps_bias;
};

/// Reads a state space's sizes. Throws Error when the file bounds time steps. Does not read mamba_proj_bias, so that
/// HfConfig refuses biases of projections later.
Recurrence StateSpaceFromHf(const HfConfig& config, const StateSpaceKeys& keys);

/// The keys of config.json that Granite and Bamba use for a state space's sizes.
extern const StateSpaceKeys kMambaKeys;

/// Does what StateSpaceFromHf does, for a GGUF file. At least one layer must be a state space. Throws Error for sizes
/// that contradict each other.
Recurrence StateSpaceFromGguf(const GgufConfig& config, const ModelSpec& spec);

/// Sets each layer's mixer from the family's name of the layer's kind. Throws Error for other names.
void SetStateSpaces(const HfConfig& config, const std::vector<std::string>& kinds, ModelSpec& spec);

/// The safetensors names of a state space's weights.
struct StateSpaceNames {
  const char *in, *taps, *taps_bias, *rate, *step_bias, *skip, *norm, *out;
};

/// The names that Granite and Bamba use, which begin with model.layers.N.mamba.
extern const StateSpaceNames kMambaNames;

void AddStateSpaceWeights(const ModelSpec& spec, const StateSpaceNames& names, std::vector<WeightSpec>& weights);

/// Returns the weights as Bamba's files name them.
std::vector<WeightSpec> BambaWeights(const ModelSpec& spec);

}  // namespace quire::architectures
