#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_config.h"

namespace quire {

/// Half-open range of indices.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// What one rank of a tensor-parallel group holds of every layer.
struct RankShard {
  Range heads;     // query heads: rows of q_proj, columns of o_proj
  Range kv_heads;  // those the query heads need; ranks may hold the same one
  Range mlp;       // rows of gate_proj and up_proj, columns of down_proj
  Range vocab;     // rows of lm_head
  /// Local kv head g serves the local query heads [head_start[g], head_start[g + 1]).
  std::vector<int32_t> head_start;
};

/// Columns of down_proj are dealt out in pieces of this many (where the size allows), so that quantisation blocks stay
/// whole.
inline constexpr int64_t kMlpUnit = 32;

/// Splits a model over shares.size() ranks in proportion to the shares (all positive). Any count up to the number of
/// query heads works: heads go out whole, and MLP columns, then vocabulary rows, fill up what the heads leave uneven,
/// so that every rank reads about its share of the weights in a step. Throws Error when there are more ranks than
/// heads.
std::vector<RankShard> PlanShards(const ModelConfig& config, const std::vector<double>& shares);

}  // namespace quire
