#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/model/architecture.h"

// What families whose MLPs are mixtures of experts have in common.
namespace quire::architectures {

/// Experts, how many of them a token chooses, and their size: what every config.json says, under names that differ.
Mixture MixtureFromHf(const HfConfig& config, const char* intermediate_size);

/// The same of GGUF, and what of routers and shared experts the file says.
Mixture MixtureFromGguf(const GgufConfig& config);

/// Throws Error where the file says that routers compare anything but sigmoids.
void RequireSigmoid(const HfConfig& config);

/// Routers of DeepSeek-V3's kind: sigmoids with a correction, in groups, and shared experts without a gate. Whether
/// weights are divided by their sum is `renormalize` where the file does not say.
Mixture CorrectedMixtureFromHf(const HfConfig& config, bool renormalize);
Mixture CorrectedMixtureFromGguf(const GgufConfig& config);

/// Columns of the one MLP that so many shared experts of the mixture's size are together.
int64_t ColumnsOfShared(const Mixture& mixture, int64_t count, const std::string& path);

/// Gives the mixture to every layer.
void SetMixture(ModelSpec& spec, const Mixture& mixture);

/// Gives the mixture to each decoder_sparse_step-th layer that mlp_only_layers does not list, as Qwen's families do.
void SetMixtureWhereSparse(const HfConfig& config, ModelSpec& spec, const Mixture& mixture);

/// Gives the mixture to all layers but the first ones.
void SetMixtureFrom(int64_t first, ModelSpec& spec, const Mixture& mixture, const std::string& path);

/// Names in safetensors of a mixture's weights; those of GGUF are the same in all families.
struct MixtureNames {
  const char *router, *gate, *up, *down;  // no gate in models without gated MLPs
  const char *shared_gate = nullptr, *shared_up = nullptr, *shared_down = nullptr, *shared_scale = nullptr;
  const char *router_bias = nullptr, *correction = nullptr;
  const char *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  const char* expert_scale = nullptr;
  const char *router_norm = nullptr, *experts_norm = nullptr, *experts_after_norm = nullptr,
             *shared_after_norm = nullptr;
};

/// Names that begin with model.layers.N.mlp: Qwen's and those that follow it.
extern const MixtureNames kQwenMixtureNames;

/// Mixtral's, and of those that follow it.
extern const MixtureNames kBlockSparseMixtureNames;

/// Like Qwen's, of families with routers of DeepSeek-V3's kind.
extern const MixtureNames kCorrectedMixtureNames;

/// Experts of all numbers in one tensor, gates and ups in one: gpt-oss's, and newer files of other families.
inline constexpr const char *kStackedGateUp = "model.layers.{}.mlp.experts.gate_up_proj",
                            *kStackedDown = "model.layers.{}.mlp.experts.down_proj";
/// What names of such gates and ups end with, behind the layer's number.
inline constexpr std::string_view kStackedEnd = std::string_view(kStackedGateUp).substr(sizeof("model.layers.{}") - 1);

/// The mixture's weights, and no more of an MLP where all layers have one.
void AddMixtureWeights(const ModelSpec& spec, const MixtureNames& names, std::vector<WeightSpec>& weights);

}  // namespace quire::architectures
