#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "comm/model/formats/stored_quants.h"
#include "comm/model/latent_attention.h"
#include "comm/model/mixture.h"
#include "comm/model/recurrence.h"
#include "comm/model/rope.h"

namespace quire {

/// How rows of activations are normed.
enum class NormKind : uint8_t {
  kRms,    // x / rms(x) * weight
  kLayer,  // (x - mean(x)) / sqrt(variance(x) + epsilon) * weight, and plus a bias with ModelSpec::norm_bias
};

/// What makes a model see the order of its tokens.
enum class Position : uint8_t {
  kRope,     // queries and keys rotate: ModelSpec::ropes
  kAlibi,    // scores fall with distance: AlibiSlopes
  kLearned,  // a table of vectors that are added to the embeddings: Role::kPositions
};

enum class Activation : uint8_t {
  kSilu,      // x / (1 + exp(-x))
  kGelu,      // x * (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,  // the same by x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
  kRelu,
  kRelu2,        // the square of it
  kClampedSilu,  // of gates: kernels/activation.h has the formula; ModelSpec::gate_limit
};

/// What lets the tokens of a layer see each other.
enum class Mixer : uint8_t {
  kNone,       // the layer is an MLP alone
  kAttention,  // softmax over the keys of the context, which lie in KV blocks
  // The others carry a state of fixed size from token to token; ModelSpec::recurrence has the sizes.
  kShortConvolution,  // a causal convolution of each channel, between two gates
  // Heads whose queries, keys and values come through a causal convolution, and
  kGatedDelta,  // the gated delta rule (kernels/gated_delta.h), and a gated norm of each head
  kStateSpace,  // Mamba-2's state space (kernels/state_space.h), and a norm over Recurrence::heads_per_key heads at
                // once
};

/// What may differ from layer to layer.
struct LayerSpec {
  Mixer mixer = Mixer::kAttention;
  int64_t num_kv_heads = 0;       // divides ModelSpec::num_heads
  int64_t head_dim = 0;           // of queries, keys and values
  int64_t kv_from_layer = -1;     // whose keys and values it reads, an earlier layer with like heads; -1: its own
  bool values_are_keys = false;   // values are what keys are before norm and rotation, and have no weights
  int64_t window = 0;             // tokens a query sees, itself counted in; 0: all
  int64_t rope = 0;               // index into ModelSpec::ropes; -1: positions do not rotate anything
  bool mlp = true;                // it has an MLP or a mixture behind its mixer
  int64_t intermediate_size = 0;  // of its MLP; of no meaning with a mixture
  bool mixture = false;           // its MLP is ModelSpec::mixture

  constexpr bool has_attention() const { return mixer == Mixer::kAttention; }
  constexpr bool has_state() const { return mixer != Mixer::kNone && !has_attention(); }
  constexpr bool has_state_heads() const { return mixer == Mixer::kGatedDelta || mixer == Mixer::kStateSpace; }
  /// True of layers with keys and values of their own, which KV blocks hold.
  constexpr bool has_kv() const { return has_attention() && kv_from_layer < 0; }
  bool operator==(const LayerSpec&) const = default;
};

/// What queries and keys are normed over before they rotate.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,  // each head by itself, with one weight for all
  kWhole,  // all heads of a token together, over all ranks, with a weight for each number
};

/// What a model computes: plain data, read once from config.json or GGUF metadata and never changed. Everything that
/// follows from the kind of a model is here or in its list of weights (comm/model/architecture.h); the forward pass
/// reads this, and knows no families.
struct ModelSpec {
  std::string architecture;  // a name of the table in comm/model/architecture.cc
  int64_t hidden_size = 0;
  int64_t num_heads = 0;  // query heads of every layer
  int64_t vocab_size = 0;
  int64_t max_position = 0;            // longest sequence the model was made for
  int64_t longest_position = 0;        // longest that its positions reach as they are scaled, if somebody asks for it
  double norm_epsilon = 0;             // of RMSNorm or LayerNorm
  std::vector<Rope> ropes = {Rope()};  // kinds of rotation: LayerSpec::rope. Not empty
  bool tied_embeddings = false;        // the output head is the embedding
  bool has_head = true;                // otherwise the model makes embeddings only, and the tied head means nothing
  bool text_only = false;              // the files are of a model that sees or hears as well, of which this is a part
  bool qkv_bias = false;               // queries, keys and values have biases
  QkNorm qk_norm = QkNorm::kNone;
  bool value_norm = false;  // each head of the values is normed, without weights; with QkNorm::kHeads
  NormKind norm = NormKind::kRms;
  bool norms_before = true;     // residual += f(norm(residual)), of attention and MLP
  bool norms_after = false;     // residual += norm(f(..)); a model may have both
  bool norms_add_one = false;   // the weights of norms as stored are one less than what is multiplied by
  bool norm_bias = false;       // norms have biases
  bool layer_scales = false;    // what the residual is after a layer is multiplied by a number of the layer
  bool embedding_norm = false;  // the embeddings are normed before the first layer
  bool out_bias = false;        // the output of attention has a bias
  bool mlp_bias = false;        // what goes into the MLP and what comes out of it have biases
  bool head_bias = false;       // the output head has a bias
  bool gated_mlp = true;        // down(activation(gate) * up); otherwise down(activation(up))
  Activation activation = Activation::kSilu;
  double gate_limit = 0;  // of kClampedSilu
  /// Each query head has a score beside those of the context that joins the softmax and has no value.
  bool attention_sinks = false;
  bool attention_gate = false;  // what attention gives is multiplied by the sigmoid of a gate, number by number
  /// Attention and MLP both read the residual of before the layer, and what they give is added to it together;
  /// otherwise the MLP reads what attention has made of it.
  bool parallel_block = false;
  bool shared_norm = false;  // of a parallel block: attention and MLP read one and the same norm
  Position position = Position::kRope;
  int64_t position_offset = 0;  // with kLearned: the row of the table that position 0 has
  double alibi_max_bias = 8;    // with kAlibi: the exponents of the slopes run up to it
  bool fused_by_head = false;   // the file's fused queries, keys and values are Fusion::kByKvHead
  bool transposed = false;      // the file has the matrices of layers as [columns, rows]
  double embedding_scale = 1;   // embeddings are multiplied by it
  double attention_scale = 0;   // scores of attention are; 0: 1 / sqrt(head_dim)
  double residual_scale = 1;    // what attention and MLP add to the residual is
  double logit_scale = 1;
  /// Numbers that each layer gets of each token beside the residual, from the token's id and its embedding, and by
  /// which it gates what it adds last (DecoderOps::AddLayerInput); 0: none.
  int64_t layer_input_size = 0;
  double score_cap = 0;  // scores of attention become cap * tanh(score / cap) before the softmax; 0: they stay
  double logit_cap = 0;  // logits likewise, after their scale
  /// The file has query and key rows for rotation of neighbouring dimensions, as GGUF's of the Llama family; elsewhere
  /// dimension i rotates with i + half of those that rotate.
  bool interleaved_rope_rows = false;
  StoredQuants quants;     // of safetensors
  LatentAttention latent;  // of all layers, or of none
  Mixture mixture;         // of the layers that have one; all alike
  Recurrence recurrence;   // of the layers that keep a state; all alike
  std::vector<LayerSpec> layers;
  std::vector<TokenId> eos_token_ids;

  int64_t num_layers() const { return static_cast<int64_t>(layers.size()); }
  int64_t num_mixture_layers() const { return std::ranges::count(layers, true, &LayerSpec::mixture); }
  int64_t num_state_layers() const { return std::ranges::count_if(layers, &LayerSpec::has_state); }
  /// CheckSpec sees to it that there is one.
  int64_t first_attention_layer() const {
    return std::ranges::find_if(layers, &LayerSpec::has_attention) - layers.begin();
  }
  /// Gives every layer the same.
  void SetAll(int64_t LayerSpec::*what, int64_t value) {
    for (LayerSpec& layer : layers) layer.*what = value;
  }
  /// Dimensions of the layer's heads that positions rotate: the first ones, i with i + half of them.
  int64_t rotated_dims(const LayerSpec& layer) const {
    if (position != Position::kRope || layer.rope < 0 || !layer.has_attention()) return 0;
    const int64_t said = ropes[static_cast<size_t>(layer.rope)].rotated_dims;
    return said > 0 ? said : layer.head_dim;
  }
  /// Tokens behind which no layer looks; 0 where some layer sees all.
  int64_t window() const {
    int64_t widest = layers.empty() ? 0 : layers[0].window;
    for (const LayerSpec& layer : layers)
      widest = layer.window == 0 || widest == 0 ? 0 : std::max(widest, layer.window);
    return widest;
  }
};

/// Sets how far positions reach from how they are scaled: YaRN and Llama 3's way make the model one for contexts so
/// long, linear scaling lets them be asked for. A model some of whose layers rotate without scaling stays as it is.
void ReadReach(ModelSpec& spec);

/// Throws Error beginning with `path` when a value is out of its range or two contradict each other.
void CheckSpec(const ModelSpec& spec, const std::string& path);

/// Every field as text: specs that say the same have the same text, and others another.
std::string TextOf(const ModelSpec& spec);

/// Numbers of the largest head of any layer.
int64_t LargestHead(const ModelSpec& spec);

/// Dimensions that this kind of rotation, an index into ModelSpec::ropes, rotates: 0 where no layer has it.
int64_t RotatedDims(const ModelSpec& spec, int64_t rope);

/// What scores of the layer's attention are multiplied by.
float AttentionScale(const ModelSpec& spec, const LayerSpec& layer);

/// What a score loses per position of distance: [num_heads], or nothing where the model has no ALiBi. For n heads, n a
/// power of two, 2^(-alibi_max_bias * (h + 1) / n); otherwise those of the next lower power of two, and then every
/// other one of the next higher (Press et al. 2022).
std::vector<float> AlibiSlopes(const ModelSpec& spec);

}  // namespace quire
