#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"

namespace quire {

/// Half-open range of indices.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// What one rank of a tensor-parallel group holds of a layer, beside what all layers have alike.
struct LayerShard {
  Range kv_heads;  // those the query heads need; ranks may hold the same one (Axis::kKeyValues)
  Range mlp;       // Axis::kMlp; empty with a mixture
  /// Local kv head g serves the local query heads [head_start[g], head_start[g + 1]).
  std::vector<int32_t> head_start;
};

/// What one rank of a tensor-parallel group holds.
struct RankShard {
  Range heads;                 // query heads of every layer (Axis::kQueries)
  Range experts;               // of a mixture; all of them, unless
  bool whole_experts = false;  // they are the rank's alone (expert parallelism); then there may be none
  Range expert_mlp;            // Axis::kExpertMlp, the same columns of each of them
  Range shared_mlp;            // Axis::kSharedMlp
  Range channels;              // of short convolutions (Axis::kChannels)
  Range value_heads;           // of heads that keep a state (Axis::kStateValues); may be none
  Range key_heads;             // those that they need; of state spaces, ranks may hold the same one
  Range vocab;                 // Axis::kVocab
  std::vector<LayerShard> layers;

  const LayerShard& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }
};

/// KV heads of a rank in a layer, its last so many, that it counts where each is to be counted once: a head that
/// several ranks hold is counted by the one that has its first query head.
int64_t CountedKvHeads(const ModelSpec& spec, const RankShard& shard, int64_t layer);

/// Numbers in a row of what a layer's first product makes on a rank: its query heads and, where the layer has keys and
/// values of its own, those heads; with latent attention what its queries become, and the one key.
int64_t QkvWidth(const ModelSpec& spec, const RankShard& shard, int64_t layer);

/// Channels of a rank that go through a layer's causal convolution: of short convolutions all, of heads that keep a
/// state their queries, keys and values.
int64_t ConvolvedChannels(const ModelSpec& spec, const RankShard& shard);

/// Columns of the MLPs are dealt out in pieces of this many (where the size allows), so that quantisation blocks stay
/// whole.
inline constexpr int64_t kMlpUnit = 32;

/// Splits a model over shares.size() ranks in proportion to the shares (all positive). Any count up to the number of
/// query heads works: heads go out whole, and channels of convolutions, heads that keep a state, MLP columns
/// (of experts, the same of each), then vocabulary rows, fill up what the heads leave uneven, so that every rank reads
/// about its share of the weights in a step of one token. With expert_parallel experts go out whole instead, as if each
/// were chosen as often as any other; the shared one is split by columns all the same. Throws Error when there are more
/// ranks than heads, and for expert_parallel without a mixture.
std::vector<RankShard> PlanShards(const ModelSpec& spec, const std::vector<double>& shares,
                                  bool expert_parallel = false);

}  // namespace quire
