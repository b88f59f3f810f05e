#pragma once

#include <string_view>
#include <vector>

#include "comm/model/architecture.h"

// What families that descend from Llama have in common; their own files add to it.
namespace quire::architectures {

/// Sizes, rotation, norm; every layer sees all.
ModelSpec LlamaFromHf(const HfConfig& config);
/// The same and, where the file says so, one window for all layers. Rows of queries and keys are not interleaved.
ModelSpec LlamaFromGguf(const GgufConfig& config);

/// Embedding, final norm, head and, per layer, norms, attention without biases, and a gated MLP.
std::vector<WeightSpec> LlamaWeights(const ModelSpec& spec);

/// The GGUF tensor that LlamaFromGguf reads into Rope::divisors.
inline constexpr const char* kRopeDivisors = "rope_freqs.weight";

}  // namespace quire::architectures
