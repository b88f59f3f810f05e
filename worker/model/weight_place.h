#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

/// Where a rank keeps a weight. A place holds the weights of one role, or those of several roles one after another
/// (weight_plan.cc says which). In the forward pass one operation reads a place. Products compute y = x * W^T.
enum class WeightPlace : uint8_t {
  // Matrices of a layer.
  kQkv,           // makes queries, keys and values (unless another layer's are read), and the gates of heads
  kAttentionOut,  // [hidden, local heads * head_dim]
  kQueryIn,       // latent attention: makes the queries' low-rank input
  kLatentIn,      // latent attention: makes the row to cache, latents first
  kLatentQuery,   // latent attention: makes queries, in place of kQkv
  kLatentKeys,    // latent attention: [rank, key_dim] for each local head
  kLatentValues,  // latent attention: [value_dim, rank] for each local head
  kMixerIn,       // layers that keep a state: makes MixerShape's input row
  kMixerOut,      // layers that keep a state: [hidden, MixerShape::out_width]
  kMlpIn,         // makes gates (if the model has gates) and ups
  kDown,          // [hidden, local mlp]
  kRouter,        // makes the experts' scores, and the gate of the shared expert
  kExpertsIn,     // as kMlpIn, for each local expert
  kExpertsDown,   // as kDown, for each local expert
  kSharedIn,      // as kMlpIn, of the shared expert
  kSharedDown,    // as kDown, of the shared expert
  kInputGate,     // layer inputs: [layer_input_size, hidden]
  kInputOut,      // layer inputs: [hidden, layer_input_size]
  // Matrices outside layers.
  kInputProjection,  // layer inputs: [layers * layer_input_size, hidden]
  kPredictionIn,     // prediction layers: [hidden, 2 * hidden], the columns of the embedding first
  kHead,             // [local vocab, hidden]
  kSparse,           // PooledHead: [1, hidden]
  kColbert,          // PooledHead: [PooledHead::colbert, hidden]
  // Tables, of which single rows are read. Every rank has them whole.
  kEmbedding,
  kPositions,
  kTokenTypes,
  kLayerEmbedding,
  // Vectors of a layer.
  kAttentionNorm,
  kAttentionNormBias,
  kAttentionAfterNorm,
  kQkvBias,  // one number for each row of kQkv without the gates
  kQueryNorm,
  kKeyNorm,
  kSinks,
  kAttentionOutBias,
  kQueryInNorm,
  kLatentNorm,
  kMlpNorm,
  kMlpNormBias,
  kMlpAfterNorm,
  kUpBias,
  kDownBias,
  kRouterBias,
  kRouterCorrection,
  kExpertScales,
  kExpertsInBias,    // for each local expert, one number for each row of kExpertsIn
  kExpertsDownBias,  // for each local expert
  kRouterNorm,
  kExpertsNorm,
  kExpertsAfterNorm,
  kSharedAfterNorm,
  kInputNorm,
  kLayerScale,
  kTaps,      // [taps, ConvolvedChannels]; the oldest token's tap comes first
  kTapsBias,  // [ConvolvedChannels]
  kRate,
  kDecayBias,
  kSkip,
  kStateNorm,
  // Vectors outside layers.
  kEmbeddingNorm,
  kEmbeddingNormBias,
  kFinalNorm,
  kFinalNormBias,
  kInputProjectionNorm,
  kPredictionTokenNorm,
  kPredictionHiddenNorm,
  kHeadBias,
  kSparseBias,
  kColbertBias,
};
constexpr bool IsMatrix(WeightPlace place) { return place <= WeightPlace::kColbert; }
constexpr bool IsTable(WeightPlace place) {
  return place >= WeightPlace::kEmbedding && place <= WeightPlace::kLayerEmbedding;
}
inline constexpr size_t kNumMatrixPlaces = static_cast<size_t>(WeightPlace::kColbert) + 1;
/// True for places that hold a weight of each local expert.
constexpr bool IsOfExperts(WeightPlace place) {
  using enum WeightPlace;
  return place == kExpertsIn || place == kExpertsDown || place == kExpertsInBias || place == kExpertsDownBias;
}

}  // namespace quire
