#pragma once

#include <cstdint>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/model/model_spec.h"

namespace quire {

/// A half-open range of indices.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool Contains(int64_t index) const { return index >= begin && index < end; }
  bool operator==(const Range&) const = default;
};

/// One rank's part of a layer, for the parts that differ between layers.
struct LayerShard {
  Range kv_heads;  // KV heads that the rank's query heads need; several ranks may have one (Axis::kKeyValues)
  Range mlp;       // Axis::kMlp; empty in a layer with a mixture
  /// Local KV head g serves the local query heads [head_start[g], head_start[g + 1]).
  std::vector<int32_t> head_start;
};

/// One rank's part of the model.
struct RankShard {
  Range stage;                 // layers that this rank computes; without a pipeline all layers
  Range heads;                 // query heads, equal in every layer (Axis::kQueries)
  Range experts;               // experts of a mixture on this rank; possibly none
  bool whole_experts = false;  // true with expert parallelism: no other rank has these experts
  Range expert_mlp;            // Axis::kExpertMlp; the same columns of each expert
  Range shared_mlp;            // Axis::kSharedMlp
  Range channels;              // channels of short convolutions (Axis::kChannels)
  Range value_heads;           // value heads that keep a recurrent state (Axis::kStateValues); possibly empty
  Range key_heads;             // key heads of these value heads; in state spaces several ranks may have one
  Range vocab;                 // Axis::kVocab
  std::vector<LayerShard> layers;

  const LayerShard& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }
  bool is_first() const { return stage.begin == 0; }                // embeds the tokens
  bool is_last() const { return stage.end == std::ssize(layers); }  // has the final norm and the head, and draws tokens
};

/// Returns the number of local KV heads that this rank counts in sums over ranks, which must count each head once. The
/// counted heads are the rank's last KV heads. A head that several ranks have is counted by the rank with the head's
/// first query head.
int64_t CountedKvHeads(const ModelSpec& spec, const RankShard& shard, int64_t layer);

/// Returns how many numbers a row of the layer's first product has on a rank: the numbers of its query heads, of its
/// key and value heads if the layer has its own, and of attention's gates. With latent attention, these are the numbers
/// of the queries in the form that is multiplied by cached rows, and of the one key.
int64_t QkvWidth(const ModelSpec& spec, const RankShard& shard, int64_t layer);

/// Returns the ranks' parts of the vocabulary.
std::vector<Range> VocabRanges(const std::vector<RankShard>& shards);

/// Returns how many of QkvWidth's numbers are gates. The gates are the last numbers of a row.
int64_t GateWidth(const ModelSpec& spec, const RankShard& shard, int64_t layer);

/// Returns the number of a rank's channels that pass through a layer's causal convolution: all channels of a short
/// convolution, or the queries, keys and values of heads that keep a state.
int64_t ConvolvedChannels(const ModelSpec& spec, const RankShard& shard);

/// MLP columns are split in units of this number of columns if their total is a multiple of it, so that quantisation
/// blocks stay whole.
inline constexpr int64_t kMlpUnit = 32;

/// Splits a model over shares.size() ranks in proportion to the shares (all positive). The number of ranks may be any
/// number up to the number of query heads. Query heads are assigned whole. Then convolution channels, state heads, MLP
/// columns (for experts the same columns of each) and vocabulary rows even out the load, so that every rank reads about
/// its share of the weights in a step of one token. With expert_parallel, experts are assigned whole, as if each were
/// chosen equally often; the shared expert is still split by columns. Throws Error if there are more ranks than heads,
/// or for expert_parallel without a mixture.
std::vector<RankShard> PlanShards(const ModelSpec& spec, const std::vector<double>& shares,
                                  bool expert_parallel = false);

/// Returns the shards of all ranks of a group, in the order of the ranks. The ranks of a stage split every layer as
/// PlanShards does, so a layer's sums have the same bits with and without a pipeline. Throws Error as PlanShards does,
/// and for stages that do not fit the model.
std::vector<RankShard> PlanGroup(const ModelSpec& spec, const GroupCut& cut, bool expert_parallel = false);

}  // namespace quire
