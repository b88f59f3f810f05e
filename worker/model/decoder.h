#pragma once

#include <cstdint>

#include "comm/model/model_spec.h"

namespace quire {

/// The operations of a decoder's forward pass, cut where devices fuse: what may become one kernel is one operation.
/// The last that adds to the residual in a layer multiplies the sum by the layer's scale, where layers have one.
/// They work on the activations of one step, which the implementation keeps:
///   residual [T, hidden]; projected [T, queries, keys and values of the rank's heads]; attended [T, the rank's heads *
///   head_dim]; activated [T, the rank's MLP columns]; chosen [T, experts per token]; inputs [T, layers,
///   layer_input_size]; logits [R, the rank's vocabulary]
/// for T tokens, R of which draw. Operations may be queued and run later, in the order of the calls. Every rank of a
/// group makes the same calls.
class DecoderOps {
 public:
  virtual ~DecoderOps() = default;

  /// residual = embedding of the tokens, scaled, and of their positions where those are learned; normed where the model
  /// does so. Where layers get inputs of their own, inputs = (norm(residual * projection^T / sqrt(hidden)) + the
  /// tokens' layer embeddings * sqrt(layer_input_size)) / sqrt(2), normed layer by layer.
  virtual void Embed() = 0;
  /// projected = norm(residual) * [Q; K; V]^T. In models that norm only what they add, the residual is not normed.
  virtual void NormQkv(int64_t layer) = 0;
  /// Queries and keys get their biases and norms, where the model has some, and their rotation; keys and values, with
  /// theirs, go into the cache.
  virtual void PositionAndStore(int64_t layer) = 0;
  /// attended = softmax(queries * keys of the context, within the layer's window, capped, less ALiBi's slopes) *
  /// values, and where the model has a gate of attention times its sigmoid.
  virtual void Attend(int64_t layer) = 0;
  /// residual += attended * O^T + bias, summed over the ranks, and then scaled or normed where the model does so.
  virtual void AddAttention(int64_t layer) = 0;
  /// For layers that keep a state, in the place of the four above:
  /// projected = norm(residual) * [what the layer's mixer takes in]^T
  virtual void NormMixerIn(int64_t layer) = 0;
  /// mixed = what the layer's mixer makes of the new tokens and the states of their sequences, which then are those
  /// after them.
  virtual void MixTokens(int64_t layer) = 0;
  /// residual += mixed * out^T, summed over the ranks.
  virtual void AddMixed(int64_t layer) = 0;
  /// activated = activation(norm(residual) * gate^T) .* (norm(residual) * up^T), or without a gate
  /// activation(norm(residual) * up^T + bias). With a shared norm it is that of NormQkv.
  virtual void NormMlpIn(int64_t layer) = 0;
  /// residual += activated * down^T + bias, likewise.
  virtual void AddMlp(int64_t layer) = 0;
  /// chosen = the experts that the layer's router chooses for each row of norm(residual), and their weights. All ranks
  /// choose the same. With Mixture::normed_apart the router has a norm of its own, divided by sqrt(hidden).
  virtual void NormRoute(int64_t layer) = 0;
  /// residual += the sum of what the chosen experts make of norm(residual), each times its weight, and of what the
  /// shared one makes of it, summed over the ranks, and then scaled or normed likewise. With Mixture::normed_apart,
  /// both read norms of their own, and both terms are normed after they were summed over the ranks.
  virtual void AddExperts(int64_t layer) = 0;
  /// residual += norm((activation(residual * gate^T) .* the layer's inputs) * out^T): all of it on every rank.
  virtual void AddLayerInput(int64_t layer) = 0;
  /// Attention and MLP at once, for attention and MLP that read the same residual.
  virtual void AddAttentionAndMlp(int64_t layer) = 0;
  /// logits = norm(residual) * head^T, of the rows that draw, scaled and capped.
  virtual void Logits() = 0;
};

/// One forward pass over all layers.
void Decode(const ModelSpec& spec, DecoderOps& ops);

}  // namespace quire
