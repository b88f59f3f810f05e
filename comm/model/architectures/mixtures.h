#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/model/architecture.h"

// Common parts of families whose MLPs are mixtures of experts.
namespace quire::architectures {

/// Reads the number of experts, the number of experts that a token chooses and, under the key `intermediate_size`, an
/// expert's number of columns. The number of experts has different keys in different families.
Mixture MixtureFromHf(const HfConfig& config, const char* intermediate_size);

/// Does what MixtureFromHf does, for a GGUF file. Also reads the router's settings.
Mixture MixtureFromGguf(const GgufConfig& config);

/// Throws Error when the file's router scores are anything but sigmoids.
void RequireSigmoid(const HfConfig& config);

/// Reads a mixture with a router like DeepSeek-V3's: sigmoid scores with a correction bias, groups of experts, and
/// shared experts without a gate. `renormalize` is the default for dividing the weights of the chosen experts by their
/// sum.
Mixture CorrectedMixtureFromHf(const HfConfig& config, bool renormalize);
Mixture CorrectedMixtureFromGguf(const GgufConfig& config);

/// `count` shared experts, each of the size of a routed expert, form one MLP. Returns the number of its columns. Throws
/// Error when `count` is negative or far too large.
int64_t ColumnsOfShared(const Mixture& mixture, int64_t count, const std::string& path);

/// Makes the MLP of every layer this mixture of experts.
void SetMixture(ModelSpec& spec, const Mixture& mixture);

/// Gives the mixture to each decoder_sparse_step-th layer that mlp_only_layers does not list, as Qwen's families do.
void SetMixtureWhereSparse(const HfConfig& config, ModelSpec& spec, const Mixture& mixture);

/// Gives the mixture to all layers from layer `first` on.
void SetMixtureFrom(int64_t first, ModelSpec& spec, const Mixture& mixture, const std::string& path);

/// Gives the mixture to the layers that mlp_layer_types calls sparse or, without that list, to all layers from layer
/// `first` on. Throws Error for other kinds of layers.
void SetMixtureWhereListed(const HfConfig& config, int64_t first, ModelSpec& spec, const Mixture& mixture);

/// The names of a mixture's weights in safetensors. GGUF names are the same in all families.
struct MixtureNames {
  const char *router, *gate, *up, *down;  // names of tensors; no gate in models without gated MLPs
  const char *shared_gate = nullptr, *shared_up = nullptr, *shared_down = nullptr, *shared_scale = nullptr;
  const char *router_bias = nullptr, *correction = nullptr;
  const char *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  const char* expert_scale = nullptr;
  const char *router_norm = nullptr, *experts_norm = nullptr, *experts_after_norm = nullptr,
             *shared_after_norm = nullptr;
};

/// The names that Qwen and the families that follow it use: they begin with model.layers.N.mlp.
extern const MixtureNames kQwenMixtureNames;

/// The names of a mixture's weights that Mixtral and the families that follow it use.
extern const MixtureNames kBlockSparseMixtureNames;

/// Qwen's names of a mixture's weights, for families with routers like DeepSeek-V3's.
extern const MixtureNames kCorrectedMixtureNames;

/// Qwen's names for experts, with the names that Trinity and HunYuan 3 give to the router and its correction bias.
extern const MixtureNames kExpertBiasMixtureNames;

/// The names of the tensor with all experts' gates and ups, and of the tensor with all experts' downs, in gpt-oss and
/// in newer files of other families.
inline constexpr const char *kStackedGateUp = "model.layers.{}.mlp.experts.gate_up_proj",
                            *kStackedDown = "model.layers.{}.mlp.experts.down_proj";
/// The end of the name of stacked gates and ups, in all families.
inline constexpr std::string_view kStackedEnd =
    std::string_view(kStackedGateUp).substr(sizeof("model.layers.{}.mlp") - 1);

/// Adds the mixture's weights, and removes the dense MLP's weights when every layer has a mixture.
void AddMixtureWeights(const ModelSpec& spec, const MixtureNames& names, std::vector<WeightSpec>& weights);

}  // namespace quire::architectures
