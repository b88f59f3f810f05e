#pragma once

#include <cstdint>

#include "comm/model/model_spec.h"
#include "worker/model/shard.h"

namespace quire {

/// The operations of a decoder's forward pass on one backend. Each operation is as large as a device may fuse into one
/// kernel. In models with a scale per layer, the last operation that adds to the residual in a layer multiplies the sum
/// by this scale. The implementation keeps the activations of one step, for T tokens, of which R are followed by a
/// sampled token:
///   residual [T, hidden]; projected [T, queries, keys and values of the rank's heads]; attended [T, the rank's heads *
///   head_dim]; activated [T, the rank's MLP columns]; chosen [T, experts per token]; inputs [T, layers,
///   layer_input_size]; logits [R, the rank's vocabulary].
/// Operations may be queued and run later, in the order of the calls. Every rank of a group makes the same calls.
class DecoderOps {
 public:
  virtual ~DecoderOps() = default;

  /// Computes residual = the tokens' embeddings, scaled, plus learned position embeddings and vectors of token types if
  /// the model has them, normed if the model norms them. For models with layer inputs, also computes inputs =
  /// (norm(residual * projection^T / sqrt(hidden)) + the tokens' layer embeddings * sqrt(layer_input_size)) / sqrt(2),
  /// with one norm per layer.
  virtual void Embed() = 0;
  /// TakeRows and GiveRows join the stages of a pipeline; backends without pipelines never get these calls. TakeRows
  /// sets residual [T, hidden] to the rows that the previous stage gave. For models with layer inputs it makes `inputs`
  /// as Embed does.
  virtual void TakeRows() {}
  /// Gives the residual to the next stage: [T, hidden].
  virtual void GiveRows() {}
  /// Computes projected = norm(residual) * [Q; K; V]^T. In models that norm only the outputs of attention and MLP, or
  /// only their sums with the residual, this operation does not norm the residual.
  virtual void NormQkv(int64_t layer) = 0;
  /// Adds biases and norms to queries and keys if the model has them, rotates both, and writes keys and values (with
  /// their biases and norms) into the KV cache.
  virtual void PositionAndStore(int64_t layer) = 0;
  /// Computes attended = softmax(scores) * values. The scores are queries * keys of the context, within the layer's
  /// window, soft-capped, minus ALiBi's slopes times the distances if the model has slopes. In encoders, queries see
  /// later tokens, too. In models with an attention gate, attended is multiplied by the gate's sigmoid.
  virtual void Attend(int64_t layer) = 0;
  /// Computes residual += attended * O^T + bias, summed over the ranks. The sum is scaled or normed before it is added,
  /// if the model does that. In models that norm sums, the residual is normed afterwards.
  virtual void AddAttention(int64_t layer) = 0;
  /// NormMixerIn, MixTokens and AddMixed replace the four operations above in layers that keep a recurrent state. In
  /// layers that have attention, too, these three operations follow PositionAndStore, so attention and the mixer read
  /// the same residual. NormMixerIn computes projected = norm(residual) * [the mixer's input weights]^T.
  virtual void NormMixerIn(int64_t layer) = 0;
  /// Computes mixed = the output of the layer's mixer for the new tokens. The mixer reads and updates the states of the
  /// sequences.
  virtual void MixTokens(int64_t layer) = 0;
  /// Computes residual += mixed * out^T, summed over the ranks.
  virtual void AddMixed(int64_t layer) = 0;
  /// Computes activated = activation(norm(residual) * gate^T) .* (norm(residual) * up^T), or without a gate
  /// activation(norm(residual) * up^T + bias). Models with a shared norm use NormQkv's norm.
  virtual void NormMlpIn(int64_t layer) = 0;
  /// Computes residual += activated * down^T + bias, summed, scaled and normed as in AddAttention.
  virtual void AddMlp(int64_t layer) = 0;
  /// Computes chosen = the experts that the layer's router chooses for each row of norm(residual), with their weights.
  /// All ranks choose the same experts. With Mixture::normed_apart the router has its own norm, whose result is divided
  /// by sqrt(hidden).
  virtual void NormRoute(int64_t layer) = 0;
  /// Computes residual += the weighted sum of the chosen experts' outputs for norm(residual), plus the shared expert's
  /// output, summed over the ranks and scaled or normed as in AddAttention. With Mixture::normed_apart, routed and
  /// shared experts each have a norm before them, and both terms are normed after the sum over the ranks.
  virtual void AddExperts(int64_t layer) = 0;
  /// Computes residual += norm((activation(residual * gate^T) .* the layer's inputs) * out^T). Every rank computes all
  /// of it.
  virtual void AddLayerInput(int64_t layer) = 0;
  /// Adds attention and MLP together, for models in which both read the same residual.
  virtual void AddAttentionAndMlp(int64_t layer) = 0;
  /// Computes logits = norm(residual) * head^T for the rows after which a token is sampled, scaled and capped. Does
  /// nothing if the model has no head.
  virtual void Logits() = 0;
};

/// BeginLayer and FinishLayer are the two halves of a layer with attention, for passes in slices (Slice). After
/// BeginLayer, the layer's keys and values of the rows are in the cache. FinishLayer needs the keys and values of all
/// rows, and the residual and the queries of its own rows as BeginLayer left them.
void BeginLayer(int64_t layer, DecoderOps& ops);
void FinishLayer(const ModelSpec& spec, int64_t layer, DecoderOps& ops);

/// Runs one forward pass over all layers.
void Decode(const ModelSpec& spec, DecoderOps& ops);
/// Runs the layers of one stage of a pipeline, with the parts of the pass that belong to this stage.
void Decode(const ModelSpec& spec, const Range& stage, DecoderOps& ops);

}  // namespace quire
