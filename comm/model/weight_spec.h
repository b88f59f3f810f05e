#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model/model_spec.h"

namespace quire {

/// What a weight is for. Whoever needs a weight asks for its role; how files call it is the architecture's business.
enum class Role : uint8_t {
  kEmbedding,
  kFinalNorm,
  kHead,
  // Of a layer.
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,
  kKeyNorm,
  kAttentionOut,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
};
inline constexpr size_t kNumRoles = static_cast<size_t>(Role::kDown) + 1;
constexpr bool IsOfLayer(Role role) { return role >= Role::kAttentionNorm; }

/// What a dimension of a weight counts. The extent follows from the model, and a rank's part of it from the rank's
/// shard (worker/model/weight_slice.h).
enum class Axis : uint8_t {
  kOne,        // the second dimension of a vector
  kHidden,     // whole on every rank
  kHeadDim,    // whole on every rank
  kTokens,     // the vocabulary, whole on every rank
  kQueries,    // query heads times head_dim
  kKeyValues,  // key and value heads times head_dim
  kMlp,
  kVocab,  // the vocabulary in shards
};

/// A weight as files have it, y = x * W^T: [rows, cols], or a vector [rows] when cols is kOne.
struct WeightSpec {
  Role role;
  const char* hf;    // its name in safetensors; in a layer's, {} stands for the layer's number
  const char* gguf;  // its name in GGUF
  Axis rows, cols;
  bool rotates = false;  // its rows are numbers of heads that positions rotate: ModelSpec::interleaved_rope_rows

  bool is_matrix() const { return cols != Axis::kOne; }
};

/// How files name tensors.
enum class Naming : uint8_t { kHf, kGguf };

/// A tensor that a model's file must have.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  Role role;
  int64_t layer;  // 0 for those that are of no layer
};

int64_t Extent(const ModelSpec& spec, Axis axis);

/// In the order of the list, a layer's weights layer by layer. Weights of one name are one tensor: the head of a model
/// whose embedding it is.
std::vector<ExpectedTensor> ExpectedTensors(const ModelSpec& spec, const std::vector<WeightSpec>& weights,
                                            Naming naming);

}  // namespace quire
