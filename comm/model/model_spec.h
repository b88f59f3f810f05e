#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "comm/model/formats/stored_quants.h"
#include "comm/model/latent_attention.h"
#include "comm/model/mixture.h"
#include "comm/model/pooled_head.h"
#include "comm/model/product_scales.h"
#include "comm/model/recurrence.h"
#include "comm/model/rope.h"

namespace quire {

/// The kind of norm for rows of activations.
enum class NormKind : uint8_t {
  kRms,    // x / rms(x) * weight
  kLayer,  // (x - mean(x)) / sqrt(variance(x) + epsilon) * weight, plus a bias with ModelSpec::norm_bias
};

/// The way in which a model encodes the order of tokens.
enum class Position : uint8_t {
  kRope,     // queries and keys rotate: ModelSpec::ropes
  kAlibi,    // scores fall with distance: AlibiSlopes
  kLearned,  // vectors of a table are added to the embeddings: Role::kPositions
};

/// A number that is added to an encoder's attention scores, by query head and by the bucket of the distance from query
/// to key (T5, MPNet). Half of the buckets are for keys after the query. Buckets of larger distances cover more
/// distances.
struct RelativeBias {
  int64_t buckets = 0;  // even; 0: no such numbers are added
  int64_t reach = 128;  // from this distance on, all keys share the last bucket of their side
  bool operator==(const RelativeBias&) const = default;
};

enum class Activation : uint8_t {
  kSilu,      // x / (1 + exp(-x))
  kGelu,      // x * (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,  // the approximation x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
  kRelu,
  kRelu2,        // the square of kRelu
  kClampedSilu,  // for gates: kernels/activation.h has the formula; uses ModelSpec::gate_limit
};

/// The part of a layer that passes information between tokens.
enum class Mixer : uint8_t {
  kNone,       // the layer has no mixer, only an MLP
  kAttention,  // softmax attention over the keys of the context, which are in KV blocks
  // The mixers below have a recurrent state of fixed size. ModelSpec::recurrence has the state's sizes.
  kShortConvolution,  // a causal convolution of each channel, between two gates
  // The next two mixers pass each head's queries, keys and values through a causal convolution first, and then use:
  kGatedDelta,              // the gated delta rule (kernels/gated_delta.h) and a gated norm of each head
  kStateSpace,              // Mamba-2's state space (kernels/state_space.h) and Recurrence::norm
  kAttentionAndStateSpace,  // both read the same normed residual and add their outputs to the residual
};

/// The settings that may differ between layers.
struct LayerSpec {
  Mixer mixer = Mixer::kAttention;
  int64_t num_kv_heads = 0;       // divides ModelSpec::num_heads
  int64_t head_dim = 0;           // numbers of one head of queries, keys and, unless value_dim says otherwise, values
  int64_t value_dim = 0;          // numbers of one head of values, at most head_dim; 0: head_dim
  int64_t kv_from_layer = -1;     // the earlier layer with equal heads whose keys and values this layer reads; -1: none
  bool values_are_keys = false;   // values are the keys before norm and rotation, and have no weights
  int64_t window = 0;             // tokens that a query sees, itself included; 0: all tokens
  int64_t chunk = 0;              // a query sees only tokens with the same position / chunk (integers); 0: all tokens
  bool sinks = true;              // has sinks, if ModelSpec::attention_sinks says that layers do
  bool qk_norm = true;            // norms its queries and keys, if ModelSpec::qk_norm says that layers do
  int64_t rope = 0;               // index into ModelSpec::ropes; -1: no rotation
  bool mlp = true;                // has an MLP or a mixture after its mixer
  int64_t intermediate_size = 0;  // columns of its MLP; unused with a mixture
  bool mixture = false;           // its MLP is ModelSpec::mixture
  bool mixer_norm = true;         // has a norm before its mixer, if the model's layers have one

  constexpr bool has_attention() const { return mixer == Mixer::kAttention || mixer == Mixer::kAttentionAndStateSpace; }
  constexpr bool has_state() const { return mixer != Mixer::kNone && mixer != Mixer::kAttention; }
  constexpr bool has_state_space() const {
    return mixer == Mixer::kStateSpace || mixer == Mixer::kAttentionAndStateSpace;
  }
  constexpr bool has_state_heads() const { return mixer == Mixer::kGatedDelta || has_state_space(); }
  constexpr int64_t value_size() const { return value_dim > 0 ? value_dim : head_dim; }
  /// True for layers that have keys and values of their own in KV blocks.
  constexpr bool has_kv() const { return has_attention() && kv_from_layer < 0; }
  bool operator==(const LayerSpec&) const = default;
};

/// The numbers over which one norm of queries or of keys is computed. The norms precede the rotation unless
/// ModelSpec::qk_norm_rotated is set.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,  // each head alone, with one weight vector for all heads
  kWhole,  // all heads of a token together, over all ranks, with a weight for each number
};

/// Everything that determines a model's computation. It is read from config.json or GGUF metadata, and does not change
/// once the model is open. All properties of a model family are here or in its list of weights
/// (comm/model/architecture.h); the forward pass depends on this struct and that list alone, not on the family.
struct ModelSpec {
  std::string architecture;  // a name in the table of comm/model/architecture.cc
  int64_t hidden_size = 0;
  int64_t num_heads = 0;  // query heads of every layer
  int64_t vocab_size = 0;
  int64_t max_position = 0;            // length in tokens of the longest sequence that the model was made for
  int64_t longest_position = 0;        // longest sequence in tokens that scaled positions allow on request
  double norm_epsilon = 0;             // epsilon of RMSNorm or LayerNorm
  std::vector<Rope> ropes = {Rope()};  // kinds of rotation, indexed by LayerSpec::rope; not empty
  bool tied_embeddings = false;        // the output head is the embedding
  bool has_head = true;                // false: the model only pools prompts; a tied head is unused
  bool bidirectional = false;          // an encoder: tokens also see later tokens, so prompts are computed as a whole
  int64_t token_types = 0;             // rows of the table of token types, which is added to embeddings; 0: no table
  PooledHead pooled_head;              // layers after pooling
  bool text_only = false;              // the text model of a multimodal model's files
  /// True for a prediction layer (multi-token prediction, MTP), opened as a model. Its input at position p is a product
  /// with Role::kPredictionIn of two normed vectors: the embedding of the token at p, and the final hidden state of the
  /// served model at p - 1. Position 0 has no such hidden state, so the layer has no input there, and attention skips
  /// it. After the last token for which the served model has a hidden state, the layer's own normed output replaces
  /// this state.
  bool predicts = false;
  bool qkv_bias = false;  // queries, keys and values have biases
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_rotated = false;  // the norms of heads follow the rotation; needs QkNorm::kHeads
  bool qk_norm_plain = false;    // the norms of heads have no weights; needs QkNorm::kHeads
  bool value_norm = false;       // each head of the values is normed, without weights; needs QkNorm::kHeads
  NormKind norm = NormKind::kRms;
  bool norms_before = true;     // residual += f(norm(residual)), for attention and MLP
  bool norms_after = false;     // residual += norm(f(..)); a model may have both norms
  bool norms_sums = false;      // residual = norm(residual + f(residual)); excludes the other two
  bool norms_add_one = false;   // stored norm weights are the factor minus one
  bool norm_bias = false;       // norms have biases
  bool layer_scales = false;    // the residual after a layer is multiplied by the layer's number
  bool embedding_norm = false;  // embeddings are normed before the first layer
  bool out_bias = false;        // the output projection of attention has a bias
  bool mlp_bias = false;        // the MLP's projections have biases
  bool head_bias = false;       // the output head has a bias
  bool gated_mlp = true;        // down(activation(gate) * up); otherwise down(activation(up))
  Activation activation = Activation::kSilu;
  double gate_limit = 0;  // bound of the gates of kClampedSilu
  /// True when each query head has an extra score, which takes part in the softmax but has no value.
  bool attention_sinks = false;
  bool attention_gate = false;  // attention's output is multiplied by the sigmoid of a gate, number by number
  bool gate_by_head = false;    // the gate is one number for each head; needs attention_gate
  /// True when attention and MLP both read the residual from before the layer, and both outputs are added to it.
  /// Otherwise the MLP reads the residual after attention.
  bool parallel_block = false;
  bool shared_norm = false;  // in a parallel block: attention and MLP read the same norm
  Position position = Position::kRope;
  int64_t position_offset = 0;  // with kLearned: the table's row for position 0
  double alibi_max_bias = 8;    // with kAlibi: the largest exponent of the slopes
  RelativeBias relative_bias;   // in addition to `position`
  bool fused_by_head = false;   // the file's fused queries, keys and values are Fusion::kByKvHead
  bool transposed = false;      // the file stores the layers' matrices as [columns, rows]
  double embedding_scale = 1;   // multiplies the embeddings
  double attention_scale = 0;   // multiplies attention scores; 0: 1 / sqrt(head_dim)
  double residual_scale = 1;    // multiplies the outputs of attention and MLP
  double logit_scale = 1;
  ProductScales scales;
  /// Count of the numbers that each layer gets for each token besides the residual. They are made from the token's id
  /// and embedding, and gate the layer's last contribution to the residual (DecoderOps::AddLayerInput). 0: none.
  int64_t layer_input_size = 0;
  double score_cap = 0;  // attention scores become cap * tanh(score / cap) before the softmax; 0: unchanged
  double logit_cap = 0;  // the same for logits, after logit_scale
  /// True when the file orders query and key rows for the rotation of neighbouring dimensions, as GGUF does for the
  /// Llama family. Otherwise dimension i rotates with dimension i + half of the rotated dimensions.
  bool interleaved_rope_rows = false;
  StoredQuants quants;     // how a safetensors model is quantised
  LatentAttention latent;  // latent attention of all layers, or of none
  Mixture mixture;         // shared by all layers with a mixture
  Recurrence recurrence;   // shared by all layers with a state
  std::vector<LayerSpec> layers;
  std::vector<TokenId> eos_token_ids;

  int64_t num_layers() const { return static_cast<int64_t>(layers.size()); }
  int64_t num_mixture_layers() const { return std::ranges::count(layers, true, &LayerSpec::mixture); }
  /// Returns the size of the context's chunks, which is the same in all layers with LayerSpec::chunk; 0: no layer has
  /// it.
  int64_t chunk() const { return layers.empty() ? 0 : std::ranges::max(layers, {}, &LayerSpec::chunk).chunk; }
  int64_t num_state_layers() const { return std::ranges::count_if(layers, &LayerSpec::has_state); }
  /// Returns the index of the first attention layer. CheckSpec ensures that there is one.
  int64_t first_attention_layer() const {
    return std::ranges::find_if(layers, &LayerSpec::has_attention) - layers.begin();
  }
  /// Sets the field `what` of all layers.
  void SetAll(int64_t LayerSpec::*what, int64_t value) {
    for (LayerSpec& layer : layers) layer.*what = value;
  }
  /// Returns the number of dimensions of the layer's heads that rotate; 0: none. The first dimensions of a head rotate;
  /// dimension i rotates with i + half of this number.
  int64_t rotated_dims(const LayerSpec& layer) const {
    if (position != Position::kRope || layer.rope < 0 || !layer.has_attention()) return 0;
    const int64_t said = ropes[static_cast<size_t>(layer.rope)].rotated_dims;
    return said > 0 ? said : layer.head_dim;
  }
  /// Returns the widest window of all layers; 0 when some layer sees the whole context. With `bidirectional`, a token
  /// sees the same number of tokens after itself.
  int64_t window() const {
    int64_t widest = layers.empty() ? 0 : layers[0].window;
    for (const LayerSpec& layer : layers)
      widest = layer.window == 0 || widest == 0 ? 0 : std::max(widest, layer.window);
    return widest;
  }
};

/// Sets longest_position from the ropes' scaling. YaRN also raises max_position, and so does Llama 3's scaling unless
/// the file's max_position already exceeds original_max_position. In all other cases, such as linear scaling, longer
/// contexts are used on request only. A model with layers that rotate without scaling stays unchanged.
void ReadReach(ModelSpec& spec);

/// Throws Error, which begins with `path`, when a value is out of range or two values contradict each other. Aborts for
/// combinations that a family's reader must not make.
void CheckSpec(const ModelSpec& spec, const std::string& path);

/// Returns every field as text. Two specs have equal texts if and only if they are equal.
std::string TextOf(const ModelSpec& spec);

/// Returns the head_dim of the layer with the largest heads.
int64_t LargestHead(const ModelSpec& spec);

/// Returns the number of dimensions that the rope with this index rotates; 0 when no layer uses the rope.
int64_t RotatedDims(const ModelSpec& spec, int64_t rope);

/// Returns the factor of the layer's attention scores.
float AttentionScale(const ModelSpec& spec, const LayerSpec& layer);

/// Returns the bucket of each distance from -reach to reach, where the distance is the key's position minus the
/// query's.
std::vector<int64_t> BucketsOfDistances(const RelativeBias& bias);

/// Returns ALiBi's slopes: by how much a score falls for each position between query and key: [num_heads]; empty
/// without ALiBi. If the number n of heads is a power of two, head h has the slope 2^(-alibi_max_bias * (h + 1) / n).
/// For other n, the first heads have the slopes of the next lower power of two, and the remaining heads have every
/// other slope of the next higher power (Press et al. 2022).
std::vector<float> AlibiSlopes(const ModelSpec& spec);

}  // namespace quire
