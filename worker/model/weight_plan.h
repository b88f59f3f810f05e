#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/weight_spec.h"
#include "worker/model/shard.h"
#include "worker/model/weight_place.h"

namespace quire {

/// Says how far --quantization, which a user asks for, may round a matrix of plain numbers.
enum class Rounding : uint8_t {
  kAsAsked,
  kToEightBits,  // to 8 bits if fewer are asked for, because no later layer evens out the errors
  kNever,        // because a rounded router chooses other experts, and few numbers make decays and betas of states
};

/// A rank's part of a weight's rows or columns: those that the range names, along the axis.
struct Cut {
  Axis axis = Axis::kOne;
  Range range;
  int64_t size() const { return range.size(); }
  bool operator==(const Cut&) const = default;
};

/// The rank's part of the weight of one role. SliceOf (worker/model/weight_slice.h) says where it lies in the file.
struct PlannedPart {
  Role role;
  Cut rows;
  Rounding rounding = Rounding::kAsAsked;
  bool operator==(const PlannedPart&) const = default;
};

/// What a rank keeps in one place. The rows of the parts come one after another, and all parts have the same columns.
struct PlannedWeight {
  WeightPlace place;
  std::vector<PlannedPart> parts = {};
  Cut cols = {};      // of a vector: one column
  int64_t heads = 0;  // greater than 0: the rows are a matrix for each of this many local heads, one below the other
  /// True when rows and columns change places as the weight is loaded: for a matrix for each head, in each of them.
  bool turned = false;

  int64_t rows() const;  // rows of all parts, before they change places with columns
  bool operator==(const PlannedWeight&) const = default;
};

/// Returns what a rank keeps of a layer, in the order of WeightPlace. Empty for layers of other stages of a pipeline.
/// A backend allocates, counts and loads exactly these weights.
std::vector<PlannedWeight> PlanLayer(const ModelSpec& spec, const RankShard& shard, int64_t layer);

/// Returns what a rank keeps of the model besides its layers, in the order of WeightPlace. Layers after pooling are not
/// planned (worker/sampling/pooled_layers.h), nor is the table of relative positions (worker/model/relative_bias.h).
std::vector<PlannedWeight> PlanOutsideLayers(const ModelSpec& spec, const RankShard& shard);

/// Returns the place of a role's weight in models without latent attention.
WeightPlace PlaceOf(Role role);

/// Calls visit(weight, expert) for every weight of a plan: first for the weights without experts, with expert 0, then
/// for each expert of the range. Files store all matrices of an expert together, so this order reads them in sequence.
template <class Weight, class Visit>
void VisitByExpert(const std::vector<Weight>& plan, const Range& experts, const Visit& visit) {
  for (const Weight& weight : plan) {
    if (!IsOfExperts(weight.place)) visit(weight, int64_t{0});
  }
  for (int64_t expert = experts.begin; expert < experts.end; ++expert) {
    for (const Weight& weight : plan) {
      if (IsOfExperts(weight.place)) visit(weight, expert);
    }
  }
}

}  // namespace quire
