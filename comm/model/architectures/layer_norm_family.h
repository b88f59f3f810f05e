#pragma once

#include <optional>
#include <vector>

#include "comm/model/architecture.h"
#include "comm/model/architectures/llama.h"

// Common parts of families that descend from GPT: LayerNorm, an MLP without a gate, and mostly queries, keys and values
// in one tensor.
namespace quire::architectures {

/// Reads a count under the one of these names that the file has. If the file has none of them, returns `otherwise`;
/// without `otherwise`, throws Error. Also throws Error when two of the names have different values, because HF would
/// take the last one in the file.
int64_t CountOf(const HfConfig& config, const std::vector<const char*>& names,
                std::optional<int64_t> otherwise = std::nullopt);

/// Sets head_dim to hidden size / heads. Throws Error when the file states another head_dim.
void SetHeadDim(const HfConfig& config, ModelSpec& spec);

/// Reads the name of an activation function as HF spells it. Throws Error for an unsupported function.
Activation ActivationFromHf(const HfConfig& config, const char* key, const char* otherwise);

/// HF's names of the sizes that every family has. The defaults are the names that most families use. Several names for
/// one size are alternatives.
struct HfSizes {
  std::vector<const char*> hidden = {"hidden_size"};
  std::vector<const char*> layers = {"num_hidden_layers"};
  std::vector<const char*> heads = {"num_attention_heads"};
  std::vector<const char*> max_position = {"max_position_embeddings"};
  int64_t max_position_otherwise = 2048;
  const char* epsilon = "layer_norm_eps";
};

/// Reads the sizes and sets LayerNorm with biases, an MLP without a gate, and as many key and value heads as query
/// heads. `tied` is the default for sharing the head with the embedding. The family's reader sets the MLP's size and
/// the kind of positions.
ModelSpec LayerNormFromHf(const HfConfig& config, const HfSizes& sizes, bool tied);

/// Does what LayerNormFromHf does, for a GGUF file. The head is the embedding when the file has no head. Attention and
/// MLP have the biases that the first layer in the file has. Fused tensors have their parts in order, and nothing is
/// transposed.
ModelSpec LayerNormFromGguf(const GgufConfig& config);

/// Sets whether attention has all its biases, and whether the MLP has all its biases.
void SetBiases(ModelSpec& spec, bool attention, bool mlp);

/// Adds queries, keys and values as one tensor, and their biases when the model has them.
void AddFusedQkv(const ModelSpec& spec, std::vector<WeightSpec>& weights, const char* name,
                 const char* name_of_bias = nullptr);

/// The embedding and the final norm under the names that several families with LayerNorm use.
inline constexpr WeightSpec kTransformerTokens = {Role::kEmbedding, "transformer.wte.weight", Axis::kTokens,
                                                  Axis::kHidden};
inline constexpr WeightSpec kTransformerFinalNorm = {Role::kFinalNorm, "transformer.ln_f.weight", Axis::kHidden,
                                                     Axis::kOne};
inline constexpr WeightSpec kTransformerFinalNormBias = {Role::kFinalNormBias, "transformer.ln_f.bias", Axis::kHidden,
                                                         Axis::kOne};

/// Returns the list without the biases that the model does not have.
std::vector<WeightSpec> WithoutMissingBiases(const ModelSpec& spec, std::vector<WeightSpec> weights);

}  // namespace quire::architectures
