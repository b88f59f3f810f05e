#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model/model_spec.h"

namespace quire {

/// The purpose of a weight. Code asks for weights by role, and each family maps roles to the names in files.
enum class Role : uint8_t {
  kEmbedding,
  kPositions,
  kTokenTypes,    // [token types, hidden], by whether a token belongs to the first or the second text
  kRelativeBias,  // [buckets, query heads]: ModelSpec::relative_bias, for all layers
  kEmbeddingNorm,
  kEmbeddingNormBias,
  kLayerEmbedding,       // embedding that makes layer inputs from token ids: ModelSpec::layer_input_size
  kLayerProjection,      // makes layer inputs from a token's embedding
  kLayerProjectionNorm,  // norm of each layer's part of the projection
  kFinalNorm,
  kFinalNormBias,
  kHead,
  kHeadBias,
  // Weights of ModelSpec::pooled_head.
  kPooledIn,
  kPooledInBias,
  kPooledNorm,
  kPooledNormBias,
  kPooledOut,
  kPooledOutBias,
  kSparse,
  kSparseBias,
  kColbert,
  kColbertBias,
  // Weights that a prediction layer (ModelSpec::predicts) has besides the usual weights of a decoder layer.
  kPredictionTokenNorm,   // norm of the tokens' embeddings
  kPredictionHiddenNorm,  // norm of the hidden states
  kPredictionIn,          // makes the layer's input from both, the embedding first
  // Weights of a layer. In models with ModelSpec::norms_sums, kAttentionNorm and kMlpNorm norm the residual after
  // attention's or the MLP's output has been added.
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
  // Weights of models with latent attention, besides queries and the output.
  kQueryIn,      // makes the query_rank numbers
  kQueryInNorm,  // norm of the query_rank numbers
  kLatentIn,     // makes latents, followed by the key that all heads share
  kLatentNorm,
  kLatentKeys,    // makes heads' keys from latents
  kLatentValues,  // makes heads' values from latents
  kAttentionGate,
  kAttentionAfterNorm,  // norm of attention's output
  kMlpNorm,
  kMlpNormBias,
  kGate,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kMlpAfterNorm,  // norm of the MLP's output
  kLayerInputGate,
  kLayerInputOut,
  kLayerInputNorm,  // norm of the output of kLayerInputOut
  kLayerScale,      // one number
  // Weights of a layer that is a short convolution, in place of attention's weights. Taps are the convolution's
  // weights.
  kConvInGate,
  kConvOutGate,
  kConvIn,
  kConvTaps,
  kConvOut,
  // Weights of a layer with a recurrent state; each kind of such layers has some of them. The names are the gated delta
  // rule's names. In state-space models, queries are C, keys are B, values are x, and decays are time steps.
  // GatedDeltaParams::rate and StateSpaceParams::rate are the exponentials of the rates here.
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
  // Weights of a layer whose MLP is a mixture, in place of gate, up and down.
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
  kSharedScale,  // the gate of the whole shared expert
  kExpertScale,  // [experts]: Mixture::expert_scales
  // Norms of a layer with Mixture::normed_apart. In such a layer kMlpNorm norms the input of the shared expert only.
  kRouterNorm,
  kExpertsNorm,
  kExpertsAfterNorm,  // norm of the sum of the chosen experts' outputs
  kSharedAfterNorm,
};
inline constexpr size_t kNumRoles = static_cast<size_t>(Role::kSharedAfterNorm) + 1;
/// True for weights of norms, but not for their biases.
constexpr bool IsNorm(Role role) {
  using enum Role;
  return role == kEmbeddingNorm || role == kFinalNorm || role == kAttentionNorm || role == kQueryNorm ||
         role == kKeyNorm || role == kAttentionAfterNorm || role == kMlpNorm || role == kMlpAfterNorm ||
         role == kLayerInputNorm || role == kLayerProjectionNorm || role == kQueryInNorm || role == kLatentNorm ||
         role == kPooledNorm || role == kPredictionTokenNorm || role == kPredictionHiddenNorm || role >= kRouterNorm;
}
constexpr bool IsOfLayer(Role role) { return role >= Role::kAttentionNorm; }
constexpr bool IsOfMixture(Role role) { return role >= Role::kRouter; }
/// True for weights that each expert of a mixture has.
constexpr bool IsOfExpert(Role role) { return role >= Role::kExpertGate && role <= Role::kExpertDownBias; }
/// True for weights that a layer with a mixture does not have.
constexpr bool IsOfDenseMlp(Role role) { return role >= Role::kGate && role <= Role::kDownBias; }
/// True for weights of attention, which layers with other mixers do not have.
constexpr bool IsOfAttention(Role role) { return role >= Role::kQuery && role <= Role::kAttentionGate; }
/// True for weights that newer GGUF files store head by head (LatentAttention::by_head).
constexpr bool IsOfLatentHeads(Role role) { return role == Role::kLatentKeys || role == Role::kLatentValues; }
constexpr bool IsOfShortConvolution(Role role) { return role >= Role::kConvInGate && role <= Role::kConvOut; }
constexpr bool IsOfStateHeads(Role role) { return role >= Role::kStateQuery && role <= Role::kStateOut; }
/// True for weights that make keys and values. A layer that reads another layer's keys and values does not have them.
constexpr bool IsOfKeysAndValues(Role role) {
  using enum Role;
  return role == kKey || role == kValue || role == kKeyBias || role == kValueBias || role == kKeyNorm;
}
/// True for norms around the mixer. (IsNormOfMlp is true for norms around the MLP or mixture.) A layer without that
/// part has no such norms.
constexpr bool IsNormOfMixer(Role role) {
  using enum Role;
  return role == kAttentionNorm || role == kAttentionNormBias || role == kAttentionAfterNorm;
}
constexpr bool IsNormOfMlp(Role role) {
  return role == Role::kMlpNorm || role == Role::kMlpNormBias || role == Role::kMlpAfterNorm;
}
constexpr bool HasRole(const LayerSpec& layer, Role role) {
  if (IsNormOfMixer(role) && (layer.mixer == Mixer::kNone || !layer.mixer_norm)) return false;
  if ((IsNormOfMlp(role) || IsOfDenseMlp(role)) && !layer.mlp) return false;
  if (IsOfAttention(role) && !layer.has_attention()) return false;
  if (IsOfShortConvolution(role) && layer.mixer != Mixer::kShortConvolution) return false;
  if (IsOfStateHeads(role) && !layer.has_state_heads()) return false;
  if (IsOfKeysAndValues(role) && !layer.has_kv()) return false;
  if (role == Role::kSinks && !layer.sinks) return false;
  if ((role == Role::kQueryNorm || role == Role::kKeyNorm) && !layer.qk_norm) return false;
  if (role == Role::kValue && layer.values_are_keys) return false;
  return layer.mixture ? !IsOfDenseMlp(role) : !IsOfMixture(role);
}

/// The meaning of a weight's dimension. The dimension's length follows from the model, and a rank's part of the
/// dimension follows from the rank's shard (worker/model/weight_slice.h).
enum class Axis : uint8_t {
  kOne,           // the second dimension of a vector
  kHidden,        // the hidden size, whole on every rank
  kJoined,        // an embedding and a hidden state, whole on every rank
  kLayerInput,    // a token's numbers for one layer, whole on every rank
  kLayerInputs,   // a token's numbers for all layers, whole on every rank
  kHeadDim,       // the layer's head_dim, whole on every rank
  kTokens,        // the vocabulary, whole on every rank
  kPositionRows,  // learned positions, whole on every rank
  kTypes,         // token types, whole on every rank
  kOutputs,       // PooledHead::outputs, whole on every rank
  kColbertDims,   // PooledHead::colbert, whole on every rank
  kBuckets,       // RelativeBias::buckets, whole on every rank
  kHeads,         // query heads
  kQueries,       // query heads times the layer's head_dim
  kKeyValues,     // the layer's key and value heads times its head_dim
  kValues,        // the layer's key and value heads times LayerSpec::value_size()
  kAttended,      // query heads times the layer's LayerSpec::value_size()
  kQueryRank,     // LatentAttention::query_rank, whole on every rank
  kLatent,        // LatentAttention::rank, whole on every rank
  kKeyPartDim,    // LatentAttention::key_dim, whole on every rank
  kLatents,       // query heads times LatentAttention::rank
  kQueryParts,    // query heads times LatentAttention::query_dim()
  kKeyParts,      // query heads times LatentAttention::key_dim
  kValueParts,    // query heads times LatentAttention::value_dim
  kMlp,           // the MLP's columns in the layer
  kExperts,       // experts of a mixture, whole on every rank
  kExpertMlp,     // columns of each expert
  kSharedMlp,     // columns of the shared expert
  kVocab,         // the vocabulary, sharded
  kChannels,      // channels of short convolutions
  kStateHeads,    // value heads of a recurrent state
  kStateKeys,     // key heads of a recurrent state, times key_dim
  kStateValues,   // value heads times value_dim
  kStateHeadDim,  // value_dim, whole on every rank
  kTaps,          // taps of convolutions, whole on every rank
};

/// The order in which several weights share one tensor of a file as rows. All weights of the list with the same name
/// share a tensor, in the order of the list. A weight with a unique name has its own tensor, whatever its Fusion is.
enum class Fusion : uint8_t {
  kNone,         // its own tensor, or all rows of a shared tensor, such as a head that is the embedding
  kInOrder,      // all rows of one weight, then all rows of the next
  kByKvHead,     // for every key and value head: its queries, its keys, its values
  kAlternating,  // the weights' first rows, then their second rows, and so on
  kByHead,       // for every query head: its rows of each weight
  kByKeyHead,    // for every key head of the gated delta rule: its rows of each weight, with its value heads together
};

/// The rows of its tensor that a weight occupies: runs of `run` neighbouring rows. The first run begins at row `first`,
/// and a run begins every `stride` rows.
struct RowPlaces {
  int64_t first = 0, run = 1, stride = 1;
  int64_t total = 0;  // rows of the tensor

  /// Returns the tensor's row for the weight's row.
  int64_t Of(int64_t row) const { return first + row / run * stride + row % run; }
};

/// A weight as files store it, used as y = x * W^T: a matrix [rows, cols], or a vector [rows] when cols is kOne. If the
/// name of an expert's weight has a second {}, for the expert's number, each expert has its own tensor. Otherwise one
/// tensor holds all experts, and its first dimension is the expert.
struct WeightSpec {
  Role role;
  const char* hf;  // name in safetensors; {} stands for a layer's number
  Axis rows, cols;
  bool rotates = false;  // its rows are head dimensions that rotate: ModelSpec::interleaved_rope_rows
  Fusion fusion = Fusion::kNone;
  bool transposed = false;     // the file stores [cols, rows]
  const char* gguf = nullptr;  // GGUF name if it differs from GgufName(role)

  bool is_matrix() const { return cols != Axis::kOne; }
};

/// The naming scheme of a file's tensors.
enum class Naming : uint8_t { kHf, kGguf };

/// Returns the weight's name in files of this kind, with {} for numbers as in WeightSpec.
const char* PatternOf(const WeightSpec& weight, Naming naming);

/// A tensor that the model's files must contain.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  Role role;
  int64_t layer;   // 0 for tensors outside layers
  int64_t expert;  // kAllExperts: the tensor belongs to all experts, or to none
};
inline constexpr int64_t kAllExperts = -1;

/// Returns how many numbers an axis of latent attention has for each query head; 0 for other axes.
int64_t NumbersPerHead(const LatentAttention& latent, Axis axis);

/// Returns the length of the axis. `layer` is used where layers differ.
int64_t Extent(const ModelSpec& spec, Axis axis, int64_t layer);

/// Returns the rows that a weight of the list occupies in its tensor of this layer.
RowPlaces PlacesOf(const ModelSpec& spec, const std::vector<WeightSpec>& weights, const WeightSpec& weight,
                   int64_t layer, Naming naming);

/// Returns the tensors in the order of the list; weights of layers come layer by layer. Weights with equal names share
/// a tensor.
std::vector<ExpectedTensor> ExpectedTensors(const ModelSpec& spec, const std::vector<WeightSpec>& weights,
                                            Naming naming);

}  // namespace quire
