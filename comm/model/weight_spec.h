#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model/model_spec.h"

namespace quire {

/// What a weight is for. Whoever needs a weight asks for its role; how files call it is the architecture's business.
enum class Role : uint8_t {
  kEmbedding,
  kPositions,
  kEmbeddingNorm,
  kEmbeddingNormBias,
  kLayerEmbedding,       // of a token, what each layer gets of it: ModelSpec::layer_input_size
  kLayerProjection,      // likewise, of its embedding
  kLayerProjectionNorm,  // of that, layer by layer
  kFinalNorm,
  kFinalNormBias,
  kHead,
  kHeadBias,
  // A layer has these.
  kAttentionNorm,
  kAttentionNormBias,
  kQuery,
  kKey,
  kValue,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,
  kKeyNorm,
  kAttentionOut,
  kAttentionOutBias,
  kSinks,
  // Of models with latent attention, beside queries and the output.
  kQueryIn,      // of what queries are made of
  kQueryInNorm,  // of that
  kLatentIn,     // of latents, and behind them the key that all heads share
  kLatentNorm,
  kLatentKeys,    // of what is made of latents: heads' keys
  kLatentValues,  // and values
  kAttentionGate,
  kAttentionAfterNorm,  // of what attention adds to the residual
  kMlpNorm,
  kMlpNormBias,
  kGate,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kMlpAfterNorm,  // of what the MLP adds to the residual
  kLayerInputGate,
  kLayerInputOut,
  kLayerInputNorm,  // of what that adds to the residual
  kLayerScale,      // one number
  // A layer that is a short convolution has these instead of attention's. Taps are of a convolution.
  kConvInGate,
  kConvOutGate,
  kConvIn,
  kConvTaps,
  kConvOut,
  // A layer whose heads keep a state has these, or those that its rule knows. The words are those of the gated delta
  // rule; in state space models queries are C, keys B, values x, and decays are steps. Rates are logarithms of
  // GatedDeltaParams::rate and StateSpaceParams::rate.
  kStateQuery,
  kStateKey,
  kStateValue,
  kStateGate,
  kStateBeta,
  kStateDecay,
  kStateQueryTaps,
  kStateKeyTaps,
  kStateValueTaps,
  kStateQueryTapsBias,
  kStateKeyTapsBias,
  kStateValueTapsBias,
  kStateRate,
  kStateDecayBias,
  kStateSkip,
  kStateNorm,
  kStateOut,
  // A layer whose MLP is a mixture has these instead of gate, up and down.
  kRouter,
  kRouterBias,
  kRouterCorrection,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedScale,  // of the gate that a shared expert as a whole goes through
  kExpertScale,  // [experts]: Mixture::expert_scales
  // With Mixture::normed_apart; what the shared expert reads is normed by kMlpNorm.
  kRouterNorm,
  kExpertsNorm,
  kExpertsAfterNorm,  // of what the chosen experts give together
  kSharedAfterNorm,
};
inline constexpr size_t kNumRoles = static_cast<size_t>(Role::kSharedAfterNorm) + 1;
/// True of the weights, not the biases, of norms.
constexpr bool IsNorm(Role role) {
  using enum Role;
  return role == kEmbeddingNorm || role == kFinalNorm || role == kAttentionNorm || role == kQueryNorm ||
         role == kKeyNorm || role == kAttentionAfterNorm || role == kMlpNorm || role == kMlpAfterNorm ||
         role == kLayerInputNorm || role == kLayerProjectionNorm || role == kQueryInNorm || role == kLatentNorm ||
         role >= kRouterNorm;
}
constexpr bool IsOfLayer(Role role) { return role >= Role::kAttentionNorm; }
constexpr bool IsOfMixture(Role role) { return role >= Role::kRouter; }
/// True of weights that each expert of a mixture has.
constexpr bool IsOfExpert(Role role) { return role >= Role::kExpertGate && role <= Role::kExpertDownBias; }
/// True of weights that a layer with a mixture does without.
constexpr bool IsOfDenseMlp(Role role) { return role >= Role::kGate && role <= Role::kDownBias; }
/// True of weights of attention itself: other mixers do without.
constexpr bool IsOfAttention(Role role) { return role >= Role::kQuery && role <= Role::kAttentionGate; }
/// True of weights that newer GGUF has head by head: LatentAttention::by_head.
constexpr bool IsOfLatentHeads(Role role) { return role == Role::kLatentKeys || role == Role::kLatentValues; }
constexpr bool IsOfShortConvolution(Role role) { return role >= Role::kConvInGate && role <= Role::kConvOut; }
constexpr bool IsOfStateHeads(Role role) { return role >= Role::kStateQuery && role <= Role::kStateOut; }
/// True of weights that make keys and values: a layer that reads those of another does without.
constexpr bool IsOfKeysAndValues(Role role) {
  using enum Role;
  return role == kKey || role == kValue || role == kKeyBias || role == kValueBias || role == kKeyNorm;
}
/// True of the norms of what goes through the mixer, and through the MLP or mixture: a layer without it has none.
constexpr bool IsNormOfMixer(Role role) {
  using enum Role;
  return role == kAttentionNorm || role == kAttentionNormBias || role == kAttentionAfterNorm;
}
constexpr bool IsNormOfMlp(Role role) {
  return role == Role::kMlpNorm || role == Role::kMlpNormBias || role == Role::kMlpAfterNorm;
}
constexpr bool HasRole(const LayerSpec& layer, Role role) {
  if (IsNormOfMixer(role) && layer.mixer == Mixer::kNone) return false;
  if ((IsNormOfMlp(role) || IsOfDenseMlp(role)) && !layer.mlp) return false;
  if (IsOfAttention(role) && !layer.has_attention()) return false;
  if (IsOfShortConvolution(role) && layer.mixer != Mixer::kShortConvolution) return false;
  if (IsOfStateHeads(role) && !layer.has_state_heads()) return false;
  if (IsOfKeysAndValues(role) && !layer.has_kv()) return false;
  if (role == Role::kValue && layer.values_are_keys) return false;
  return layer.mixture ? !IsOfDenseMlp(role) : !IsOfMixture(role);
}

/// What a dimension of a weight counts. The extent follows from the model, and a rank's part of it from the rank's
/// shard (worker/model/weight_slice.h).
enum class Axis : uint8_t {
  kOne,           // the second dimension of a vector
  kHidden,        // whole on every rank
  kLayerInput,    // numbers that one layer gets of a token, whole on every rank
  kLayerInputs,   // of all layers, likewise
  kHeadDim,       // of the layer, whole on every rank
  kTokens,        // the vocabulary, whole on every rank
  kPositionRows,  // learned positions, whole on every rank
  kHeads,         // query heads
  kQueries,       // query heads times the layer's head_dim
  kKeyValues,     // the layer's key and value heads times its head_dim
  kQueryRank,     // numbers that queries are made of: LatentAttention, whole on every rank
  kLatent,        // numbers of a latent, whole on every rank
  kKeyPartDim,    // numbers of a head's key that are made of it, whole on every rank
  kLatents,       // query heads times the numbers of a latent
  kQueryParts,    // query heads times the numbers of a query, before it is brought to the latents
  kKeyParts,      // query heads times the numbers of a key that are made of a latent
  kValueParts,    // query heads times those of a value
  kMlp,           // of the layer
  kExperts,       // of a mixture, whole on every rank
  kExpertMlp,     // of every expert
  kSharedMlp,     // of the shared expert
  kVocab,         // the vocabulary in shards
  kChannels,      // of short convolutions
  kStateHeads,    // value heads that keep a state
  kStateKeys,     // their key heads times key_dim
  kStateValues,   // value heads times value_dim
  kStateHeadDim,  // value_dim, whole on every rank
  kTaps,          // of convolutions, whole on every rank
};

/// How several weights are the rows of one tensor of a file: those of the list that have its name there, in their
/// order. A weight whose name no other has is a tensor of its own, whatever is said here.
enum class Fusion : uint8_t {
  kNone,         // a tensor of its own, or one of the same numbers: the head of a model whose embedding it is
  kInOrder,      // all rows of one after all rows of another
  kByKvHead,     // for every key and value head its queries, its keys, its values
  kAlternating,  // a row of each in turn
  kByHead,       // for every query head its rows of each
  kByKeyHead,    // for every key head of the gated delta rule its rows of each, those of its value heads together
};

/// Where the rows of a weight are in its tensor: runs of neighbours, the first at `first`, one every `stride` rows.
struct RowPlaces {
  int64_t first = 0, run = 1, stride = 1;
  int64_t total = 0;  // rows of the tensor

  int64_t Of(int64_t row) const { return first + row / run * stride + row % run; }
};

/// A weight as files have it, y = x * W^T: [rows, cols], or a vector [rows] when cols is kOne. That of an expert is a
/// tensor of its own where the name has a place for the expert's number, a second {}; elsewhere those of all experts
/// are one tensor, whose first dimension is the expert.
struct WeightSpec {
  Role role;
  const char* hf;  // its name in safetensors; in a layer's, {} stands for the layer's number
  Axis rows, cols;
  bool rotates = false;  // its rows are numbers of heads that positions rotate: ModelSpec::interleaved_rope_rows
  Fusion fusion = Fusion::kNone;
  bool transposed = false;     // the file has [cols, rows]
  const char* gguf = nullptr;  // its name in GGUF where it is not what other families' files call such a weight

  bool is_matrix() const { return cols != Axis::kOne; }
};

/// How files name tensors.
enum class Naming : uint8_t { kHf, kGguf };

/// The name in such files, with places for numbers as in WeightSpec.
const char* PatternOf(const WeightSpec& weight, Naming naming);

/// A tensor that a model's file must have.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  Role role;
  int64_t layer;   // 0 for those that are of no layer
  int64_t expert;  // whose it is; kAllExperts: of all of them, or of none
};
inline constexpr int64_t kAllExperts = -1;

/// Numbers of a query head along an axis of latent attention; 0 along others.
int64_t NumbersPerHead(const LatentAttention& latent, Axis axis);

/// `layer` counts for what differs from layer to layer.
int64_t Extent(const ModelSpec& spec, Axis axis, int64_t layer);

/// Where a weight of the list is in its tensor of this layer.
RowPlaces PlacesOf(const ModelSpec& spec, const std::vector<WeightSpec>& weights, const WeightSpec& weight,
                   int64_t layer, Naming naming);

/// In the order of the list, a layer's weights layer by layer. Weights of one name are one tensor.
std::vector<ExpectedTensor> ExpectedTensors(const ModelSpec& spec, const std::vector<WeightSpec>& weights,
                                            Naming naming);

}  // namespace quire
