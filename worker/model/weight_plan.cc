#include "worker/model/weight_plan.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// The roles whose weights a place holds, in the order of their rows.
struct PlaceRoles {
  WeightPlace place;
  std::initializer_list<Role> roles;
};

namespace places {

using enum WeightPlace;
using R = Role;

/// Says which weight goes where. A layer has those roles of a place that its family lists (WeightsOf) and HasRole
/// grants: a layer of short convolutions has the first three of kMixerIn, one of state spaces some of the others.
constexpr PlaceRoles kAll[] = {
    // Matrices of a layer.
    {kQkv, {R::kQuery, R::kKey, R::kValue, R::kAttentionGate}},
    {kAttentionOut, {R::kAttentionOut}},
    {kQueryIn, {R::kQueryIn}},
    {kLatentIn, {R::kLatentIn}},
    {kLatentQuery, {R::kQuery}},
    {kLatentKeys, {R::kLatentKeys}},
    {kLatentValues, {R::kLatentValues}},
    {kMixerIn,
     {R::kConvInGate, R::kConvOutGate, R::kConvIn, R::kStateQuery, R::kStateKey, R::kStateValue, R::kStateGate,
      R::kStateBeta, R::kStateDecay}},
    {kMixerOut, {R::kConvOut, R::kStateOut}},
    {kMlpIn, {R::kGate, R::kUp}},
    {kDown, {R::kDown}},
    {kRouter, {R::kRouter, R::kSharedScale}},
    {kExpertsIn, {R::kExpertGate, R::kExpertUp}},
    {kExpertsDown, {R::kExpertDown}},
    {kSharedIn, {R::kSharedGate, R::kSharedUp}},
    {kSharedDown, {R::kSharedDown}},
    {kInputGate, {R::kLayerInputGate}},
    {kInputOut, {R::kLayerInputOut}},
    // Matrices and tables outside layers.
    {kInputProjection, {R::kLayerProjection}},
    {kPredictionIn, {R::kPredictionIn}},
    {kHead, {R::kHead}},
    {kSparse, {R::kSparse}},
    {kColbert, {R::kColbert}},
    {kEmbedding, {R::kEmbedding}},
    {kPositions, {R::kPositions}},
    {kTokenTypes, {R::kTokenTypes}},
    {kLayerEmbedding, {R::kLayerEmbedding}},
    // Vectors of a layer.
    {kAttentionNorm, {R::kAttentionNorm}},
    {kAttentionNormBias, {R::kAttentionNormBias}},
    {kAttentionAfterNorm, {R::kAttentionAfterNorm}},
    {kQkvBias, {R::kQueryBias, R::kKeyBias, R::kValueBias}},
    {kQueryNorm, {R::kQueryNorm}},
    {kKeyNorm, {R::kKeyNorm}},
    {kSinks, {R::kSinks}},
    {kAttentionOutBias, {R::kAttentionOutBias}},
    {kQueryInNorm, {R::kQueryInNorm}},
    {kLatentNorm, {R::kLatentNorm}},
    {kMlpNorm, {R::kMlpNorm}},
    {kMlpNormBias, {R::kMlpNormBias}},
    {kMlpAfterNorm, {R::kMlpAfterNorm}},
    {kUpBias, {R::kUpBias}},
    {kDownBias, {R::kDownBias}},
    {kRouterBias, {R::kRouterBias}},
    {kRouterCorrection, {R::kRouterCorrection}},
    {kExpertScales, {R::kExpertScale}},
    {kExpertsInBias, {R::kExpertGateBias, R::kExpertUpBias}},
    {kExpertsDownBias, {R::kExpertDownBias}},
    {kRouterNorm, {R::kRouterNorm}},
    {kExpertsNorm, {R::kExpertsNorm}},
    {kExpertsAfterNorm, {R::kExpertsAfterNorm}},
    {kSharedAfterNorm, {R::kSharedAfterNorm}},
    {kInputNorm, {R::kLayerInputNorm}},
    {kLayerScale, {R::kLayerScale}},
    {kTaps, {R::kConvTaps, R::kStateQueryTaps, R::kStateKeyTaps, R::kStateValueTaps}},
    {kTapsBias, {R::kStateQueryTapsBias, R::kStateKeyTapsBias, R::kStateValueTapsBias}},
    {kRate, {R::kStateRate}},
    {kDecayBias, {R::kStateDecayBias}},
    {kSkip, {R::kStateSkip}},
    {kStateNorm, {R::kStateNorm}},
    // Vectors outside layers.
    {kEmbeddingNorm, {R::kEmbeddingNorm}},
    {kEmbeddingNormBias, {R::kEmbeddingNormBias}},
    {kFinalNorm, {R::kFinalNorm}},
    {kFinalNormBias, {R::kFinalNormBias}},
    {kInputProjectionNorm, {R::kLayerProjectionNorm}},
    {kPredictionTokenNorm, {R::kPredictionTokenNorm}},
    {kPredictionHiddenNorm, {R::kPredictionHiddenNorm}},
    {kHeadBias, {R::kHeadBias}},
    {kSparseBias, {R::kSparseBias}},
    {kColbertBias, {R::kColbertBias}}};

}  // namespace places

Rounding RoundingOf(Role role) {
  using enum Role;
  if (role == kRouter || role == kSharedScale || role == kStateBeta || role == kStateDecay) return Rounding::kNever;
  if (role == kHead || role == kSparse || role == kColbert) return Rounding::kToEightBits;
  return Rounding::kAsAsked;
}

/// True for places that only the last stage of a pipeline has.
bool IsOfLastStage(WeightPlace place) {
  using enum WeightPlace;
  return place == kHead || place == kHeadBias || place == kSparse || place == kSparseBias || place == kColbert ||
         place == kColbertBias;
}

/// True when the layer has the role, which its family lists. Values that are keys are the keys' weight once more.
bool HasWeight(const LayerSpec& layer, Role role) {
  return HasRole(layer, role == Role::kValue && layer.values_are_keys ? Role::kKey : role);
}

/// Plans the places whose roles satisfy `is_wanted`.
template <class IsWanted>
std::vector<PlannedWeight> Plan(const ModelSpec& spec, const RankShard& shard, int64_t layer,
                                const IsWanted& is_wanted) {
  const std::vector<WeightSpec> weights = WeightsOf(spec);
  const WeightPlace of_other_attention = spec.latent.rank > 0 ? WeightPlace::kQkv : WeightPlace::kLatentQuery;
  std::vector<PlannedWeight> plan;
  for (const auto& [place, roles] : places::kAll) {
    if (place == of_other_attention) continue;
    PlannedWeight planned = {place};
    for (const Role role : roles) {
      const auto weight = std::ranges::find(weights, role, &WeightSpec::role);
      if (weight == weights.end() || !is_wanted(place, role)) continue;
      planned.parts.push_back({role, {weight->rows, PartOf(spec, weight->rows, shard, layer)}, RoundingOf(role)});
      planned.cols = {weight->cols, PartOf(spec, weight->cols, shard, layer)};
      if (IsOfLatentHeads(role)) planned.heads = shard.heads.size();
      planned.turned = weight->rows == Axis::kKeyParts || weight->cols == Axis::kTaps;
    }
    if (!planned.parts.empty()) plan.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace

int64_t PlannedWeight::rows() const {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const PlannedPart& part) { return sum + part.rows.size(); });
}

std::vector<PlannedWeight> PlanLayer(const ModelSpec& spec, const RankShard& shard, int64_t layer) {
  if (!shard.stage.Contains(layer)) return {};
  const LayerSpec& l = spec.layers[static_cast<size_t>(layer)];
  return Plan(spec, shard, layer, [&](WeightPlace, Role role) { return IsOfLayer(role) && HasWeight(l, role); });
}

std::vector<PlannedWeight> PlanOutsideLayers(const ModelSpec& spec, const RankShard& shard) {
  return Plan(spec, shard, 0, [&](WeightPlace place, Role role) {
    return !IsOfLayer(role) && (shard.is_last() || !IsOfLastStage(place));
  });
}

WeightPlace PlaceOf(Role role) {
  for (const auto& [place, roles] : places::kAll) {
    if (std::ranges::count(roles, role) > 0) return place;
  }
  Fail("weight {} has no place", static_cast<int>(role));
}

}  // namespace quire
