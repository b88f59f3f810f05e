#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// How a model is divided among a group of ranks. A pipeline has stages, each with consecutive layers. The ranks of a
/// stage share each of its layers (tensor parallelism). Rank 0 belongs to the last stage, because that stage samples
/// the tokens and rank 0 sends them to the coordinator. With S stages of T ranks, rank r has stage S - 1 - r / T, and
/// index r % T within that stage.
struct GroupCut {
  std::vector<double> shares;         // relative part of each layer for each rank of a stage, the same in every stage
  std::vector<int32_t> stage_layers;  // layers of each stage, the first stage first; empty: one stage with all layers

  int num_stages() const { return std::max(1, static_cast<int>(stage_layers.size())); }
  int stage_size() const { return static_cast<int>(shares.size()); }
  int num_ranks() const { return num_stages() * stage_size(); }
  int StageOf(Rank rank) const { return num_stages() - 1 - rank / stage_size(); }
  int PlaceOf(Rank rank) const { return rank % stage_size(); }
  Rank RankAt(int stage, int place) const { return (num_stages() - 1 - stage) * stage_size() + place; }

  auto operator<=>(const GroupCut&) const = default;
};

}  // namespace quire
