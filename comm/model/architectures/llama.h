#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/model/architecture.h"
#include "comm/model/architectures/rotation.h"

// Common parts of families that descend from Llama. Each family's file adds the family's own parts.
namespace quire::architectures {

/// Reads sizes, rotation and norm from config.json. No layer has a window.
ModelSpec LlamaFromHf(const HfConfig& config, const RopeHabits& habits = {});
/// Does what LlamaFromHf does, for a GGUF file. All layers have the file's window, if the file names a window. Query
/// and key rows are not interleaved.
ModelSpec LlamaFromGguf(const GgufConfig& config);

/// Returns the weights of Llama: embedding, final norm, head and, in each layer, norms, attention without biases and a
/// gated MLP.
std::vector<WeightSpec> LlamaWeights(const ModelSpec& spec);

/// Returns the output head: a tensor with this name in safetensors, or the embedding if the model uses one tensor for
/// both.
WeightSpec HeadOf(const ModelSpec& spec, const WeightSpec& embedding, const char* name = "lm_head.weight");

/// Returns `count` equal layers. Throws Error when the count is out of range.
std::vector<LayerSpec> LayersOf(int64_t count, const std::string& path);

/// Reads config.json's layer_types, one for each layer; empty when the file has no such list. Throws Error when the
/// list has another length.
std::vector<std::string> KindsOfLayers(const HfConfig& config, const ModelSpec& spec);

/// Reads config.json's sliding_window: 0 for null, `otherwise` when the key is missing.
int64_t WindowOf(const HfConfig& config, int64_t otherwise);

/// True when layers of this kind have a window. Throws Error for a kind that is neither sliding nor full attention.
bool IsSliding(const HfConfig& config, const std::string& kind);

/// Gives the window to the sliding layers: those that layer_types calls sliding or, without layer_types, the layers for
/// whose number `slides` returns true.
void ReadKinds(const HfConfig& config, ModelSpec& spec, int64_t window, const std::function<bool(int64_t)>& slides);

/// The final norm's name in safetensors of some families. The other families call it model.norm.
inline constexpr const char* kFinalLayerNorm = "model.final_layernorm.weight";
/// The MLP's names in safetensors of Bamba, Falcon-H1 and Llama 4.
inline constexpr const char *kFeedForwardGate = "model.layers.{}.feed_forward.gate_proj.weight",
                            *kFeedForwardUp = "model.layers.{}.feed_forward.up_proj.weight",
                            *kFeedForwardDown = "model.layers.{}.feed_forward.down_proj.weight";

/// The name of attention sinks in safetensors of gpt-oss and of MiMo-V2 as HF saves it.
inline constexpr const char* kSinksName = "model.layers.{}.self_attn.sinks";

/// Returns the weight with this role. Aborts when the list has no such weight.
WeightSpec& WeightOf(std::vector<WeightSpec>& weights, Role role);
/// Changes the safetensors name of the weight with this role to `hf`.
void Rename(std::vector<WeightSpec>& weights, Role role, const char* hf);
/// Makes the weights of two or three roles rows of one tensor. Its names are `hf` and `gguf`.
void Fuse(std::vector<WeightSpec>& weights, std::initializer_list<Role> roles, const char* hf, const char* gguf);
/// Makes the MLP's gate and up matrices rows of one tensor.
void FuseGatesAndUps(std::vector<WeightSpec>& weights);
/// Adds biases of queries, keys and values. `rotate`: WeightSpec::rotates of the biases of queries and keys.
void AddQkvBiases(std::vector<WeightSpec>& weights, bool rotate);
/// Adds a bias to each norm of the list, as LayerNorm needs. `final_norm_bias` is the name of the final norm's bias in
/// safetensors.
void AddNormBiases(std::vector<WeightSpec>& weights, const char* final_norm_bias = "model.norm.bias");
/// Adds norms of queries and keys. `query` and `key` are the axes of their weights: one number for each unit.
void AddQueryKeyNorms(std::vector<WeightSpec>& weights, Axis query, Axis key);
void AddAttentionOutBias(std::vector<WeightSpec>& weights);
void AddHeadBias(std::vector<WeightSpec>& weights);
/// Adds norms of the outputs of attention and MLP.
void AddNormsAfter(std::vector<WeightSpec>& weights);
/// Adds norms of the outputs of attention and MLP to a model that also has a norm before the MLP. The MLP's first norm
/// then has another name.
void AddNormsAround(std::vector<WeightSpec>& weights);

/// Adds the weights of gates of attention's output. `rows`: the axis whose units have a gate each. `gguf`: their GGUF
/// name; null: no GGUF file has these weights.
void AddAttentionGate(std::vector<WeightSpec>& weights, Axis rows, const char* gguf = nullptr);

/// The name of the norm after the MLP in some families.
inline constexpr const char* kPostMlpNorm = "model.layers.{}.post_mlp_layernorm.weight";

}  // namespace quire::architectures
