#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/model/architecture.h"
#include "comm/model/architectures/rotation.h"

// What families that descend from Llama have in common; their own files add to it.
namespace quire::architectures {

/// Sizes, rotation, norm; every layer sees all.
ModelSpec LlamaFromHf(const HfConfig& config, const RopeHabits& habits = {});
/// The same and, where the file says so, one window for all layers. Rows of queries and keys are not interleaved.
ModelSpec LlamaFromGguf(const GgufConfig& config);

/// Embedding, final norm, head and, per layer, norms, attention without biases, and a gated MLP.
std::vector<WeightSpec> LlamaWeights(const ModelSpec& spec);

/// The output head: a tensor of its own, with this name in safetensors, or the embedding.
WeightSpec HeadOf(const ModelSpec& spec, const WeightSpec& embedding, const char* name = "lm_head.weight");

/// So many layers of one kind. Throws Error when there cannot be so many.
std::vector<LayerSpec> LayersOf(int64_t count, const std::string& path);

/// config.json's layer_types, one for each layer, or nothing where the file does not list them.
std::vector<std::string> KindsOfLayers(const HfConfig& config, const ModelSpec& spec);

/// config.json's sliding_window: null is none, and a file that is silent has the family's.
int64_t WindowOf(const HfConfig& config, int64_t otherwise);

/// Whether such a kind has a window; throws Error for a kind that is neither sliding nor full attention.
bool IsSliding(const HfConfig& config, const std::string& kind);

/// Gives the window to the layers that slide: those that layer_types says or, without it, `slides` of their numbers.
void ReadKinds(const HfConfig& config, ModelSpec& spec, int64_t window, const std::function<bool(int64_t)>& slides);

/// What the final norm is called in safetensors of families that do not call it model.norm.
inline constexpr const char* kFinalLayerNorm = "model.final_layernorm.weight";

/// One of the weights. Aborts where there is none of this role.
WeightSpec& WeightOf(std::vector<WeightSpec>& weights, Role role);
/// `weights` with another name for one of them in safetensors.
void Rename(std::vector<WeightSpec>& weights, Role role, const char* hf);
/// Two or three of them become rows of one tensor with these names.
void Fuse(std::vector<WeightSpec>& weights, std::initializer_list<Role> roles, const char* hf, const char* gguf);
/// Gates and ups that are one tensor.
void FuseGatesAndUps(std::vector<WeightSpec>& weights);
/// Biases of queries, keys and values.
void AddQkvBiases(std::vector<WeightSpec>& weights, bool rotate);
/// Biases of the norms that the list has, for LayerNorm; the final norm's has this name in safetensors.
void AddNormBiases(std::vector<WeightSpec>& weights, const char* final_norm_bias = "model.norm.bias");
/// Norms of queries and keys, over `query` and `key` numbers.
void AddQueryKeyNorms(std::vector<WeightSpec>& weights, Axis query, Axis key);
void AddAttentionOutBias(std::vector<WeightSpec>& weights);
void AddHeadBias(std::vector<WeightSpec>& weights);
/// Norms of what attention and the MLP add to the residual.
void AddNormsAfter(std::vector<WeightSpec>& weights);
/// The same, beside a norm before the MLP that has another name then.
void AddNormsAround(std::vector<WeightSpec>& weights);

}  // namespace quire::architectures
