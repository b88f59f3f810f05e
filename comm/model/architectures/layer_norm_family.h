#pragma once

#include <optional>
#include <vector>

#include "comm/model/architecture.h"
#include "comm/model/architectures/llama.h"

// What families that descend from GPT have in common: LayerNorm, an MLP without a gate, and mostly queries, keys and
// values in one tensor.
namespace quire::architectures {

/// The count under those of these names that the file has, `otherwise` where it has none. Throws Error where two of
/// them contradict each other: HF would take the one that comes last in the file.
int64_t CountOf(const HfConfig& config, const std::vector<const char*>& names,
                std::optional<int64_t> otherwise = std::nullopt);

/// Gives heads their share of the hidden size. Throws Error for a file that says another head_dim.
void SetHeadDim(const HfConfig& config, ModelSpec& spec);

/// What HF knows under the name that the key says. Throws Error for one that is not supported.
Activation ActivationFromHf(const HfConfig& config, const char* key, const char* otherwise);

/// How HF's file names the sizes that all of them have: most families as here. The first name that the file has counts.
struct HfSizes {
  std::vector<const char*> hidden = {"hidden_size"};
  std::vector<const char*> layers = {"num_hidden_layers"};
  std::vector<const char*> heads = {"num_attention_heads"};
  std::vector<const char*> max_position = {"max_position_embeddings"};
  int64_t max_position_otherwise = 2048;
  const char* epsilon = "layer_norm_eps";
};

/// Sizes, LayerNorm with biases, an MLP without a gate, as many key and value heads as queries; the head is the
/// embedding unless the file says otherwise (tied). The size of the MLP and the kind of positions are left to the
/// family.
ModelSpec LayerNormFromHf(const HfConfig& config, const HfSizes& sizes, bool tied);

/// The same of a GGUF file. The head is the embedding where the file has none; attention and MLP have the biases that
/// the file has in its first layer. What is fused there lies in order, and nothing is transposed.
ModelSpec LayerNormFromGguf(const GgufConfig& config);

/// All biases that there are.
void SetBiases(ModelSpec& spec, bool attention, bool mlp);

/// Adds queries, keys and values that are one tensor, and where the model has biases, those.
void AddFusedQkv(const ModelSpec& spec, std::vector<WeightSpec>& weights, const char* name,
                 const char* name_of_bias = nullptr);

/// What several of them name alike.
inline constexpr WeightSpec kTransformerTokens = {Role::kEmbedding, "transformer.wte.weight", Axis::kTokens,
                                                  Axis::kHidden};
inline constexpr WeightSpec kTransformerFinalNorm = {Role::kFinalNorm, "transformer.ln_f.weight", Axis::kHidden,
                                                     Axis::kOne};
inline constexpr WeightSpec kTransformerFinalNormBias = {Role::kFinalNormBias, "transformer.ln_f.bias", Axis::kHidden,
                                                         Axis::kOne};

/// A list without the biases that the model does not have.
std::vector<WeightSpec> WithoutMissingBiases(const ModelSpec& spec, std::vector<WeightSpec> weights);

}  // namespace quire::architectures
