#include "comm/model/weight_spec.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "comm/base/error.h"
#include "comm/model/architectures/gguf_names.h"

namespace quire {

namespace {

std::string NameOf(const WeightSpec& weight, int64_t layer, int64_t expert, Naming naming) {
  std::string name = PatternOf(weight, naming);
  for (const int64_t number : {layer, expert}) {
    if (const size_t place = name.find("{}"); place != std::string::npos)
      name.replace(place, 2, std::to_string(number));
  }
  return name;
}

bool HasPlaceForExpert(const std::string_view name) { return name.find("{}") != name.rfind("{}"); }

/// Appends the weight's tensor to `expected`, or one tensor for each expert.
void Expect(const ModelSpec& spec, const std::vector<WeightSpec>& weights, const WeightSpec& weight, int64_t layer,
            Naming naming, std::vector<ExpectedTensor>& expected) {
  std::vector<int64_t> shape = {PlacesOf(spec, weights, weight, layer, naming).total};
  // HF stores a convolution with one filter per channel as [channels, 1, taps].
  if (weight.cols == Axis::kTaps && naming == Naming::kHf) shape.push_back(1);
  if (weight.is_matrix()) shape.push_back(Extent(spec, weight.cols, layer));
  if (weight.transposed) std::swap(shape[0], shape[1]);
  if (IsOfLatentHeads(weight.role) && spec.latent.by_head) {
    shape.insert(shape.begin(), spec.num_heads);
    shape[1] /= spec.num_heads;
  }
  const bool apart = HasPlaceForExpert(PatternOf(weight, naming));
  if (IsOfExpert(weight.role) && !apart) shape.insert(shape.begin(), spec.mixture.experts);
  for (int64_t expert = 0; expert < (apart ? spec.mixture.experts : 1); ++expert) {
    expected.push_back(
        {NameOf(weight, layer, expert, naming), shape, weight.role, layer, apart ? expert : kAllExperts});
  }
}

/// Returns the number of runs of rows into which a fused tensor divides each of its weights.
int64_t GroupsOf(const ModelSpec& spec, const LayerSpec& layer, Fusion fusion, int64_t rows) {
  switch (fusion) {
    case Fusion::kNone:
    case Fusion::kInOrder:
      return 1;
    case Fusion::kByKvHead:
      return layer.num_kv_heads;
    case Fusion::kAlternating:
      return rows;
    case Fusion::kByHead:
      return spec.num_heads;
    case Fusion::kByKeyHead:
      return spec.recurrence.key_heads;
  }
  Fail("unknown fusion");
}

/// Returns the length of an axis of latent attention that does not depend on the heads.
int64_t ExtentOfLatents(const LatentAttention& latent, Axis axis) {
  if (axis == Axis::kQueryRank) return latent.query_rank;
  return axis == Axis::kLatent ? latent.rank : latent.key_dim;
}

/// Returns the length of an axis that only encoders have.
int64_t ExtentOfEncoder(const ModelSpec& spec, Axis axis) {
  if (axis == Axis::kTypes) return spec.token_types;
  if (axis == Axis::kBuckets) return spec.relative_bias.buckets;
  return axis == Axis::kOutputs ? spec.pooled_head.outputs : spec.pooled_head.colbert;
}

int64_t ExtentOfMixture(const Mixture& mixture, Axis axis) {
  if (axis == Axis::kExperts) return mixture.experts;
  return axis == Axis::kExpertMlp ? mixture.intermediate_size : mixture.shared_intermediate_size;
}

/// Returns how many numbers an axis of attention has for each of its heads.
int64_t NumbersOfHead(const LayerSpec& layer, Axis axis) {
  if (axis == Axis::kHeads) return 1;
  return axis == Axis::kValues || axis == Axis::kAttended ? layer.value_size() : layer.head_dim;
}

}  // namespace

const char* PatternOf(const WeightSpec& weight, Naming naming) {
  if (naming == Naming::kHf) return weight.hf;
  const char* name = weight.gguf != nullptr ? weight.gguf : architectures::GgufName(weight.role);
  QUIRE_CHECK(name != nullptr, "no GGUF has weight {}", static_cast<int>(weight.role));
  return name;
}

int64_t NumbersPerHead(const LatentAttention& latent, Axis axis) {
  switch (axis) {
    case Axis::kLatents:
      return latent.rank;
    case Axis::kQueryParts:
      return latent.query_dim();
    case Axis::kKeyParts:
      return latent.key_dim;
    case Axis::kValueParts:
      return latent.value_dim;
    default:
      return 0;
  }
}

int64_t Extent(const ModelSpec& spec, Axis axis, int64_t layer) {
  const LayerSpec& l = spec.layers[static_cast<size_t>(layer)];
  switch (axis) {
    case Axis::kOne:
      return 1;
    case Axis::kHidden:
    case Axis::kJoined:
      return spec.hidden_size * (axis == Axis::kJoined ? 2 : 1);
    case Axis::kLayerInput:
    case Axis::kLayerInputs:
      return spec.layer_input_size * (axis == Axis::kLayerInputs ? spec.num_layers() : 1);
    case Axis::kHeadDim:
      return l.head_dim;
    case Axis::kTokens:
    case Axis::kVocab:
      return spec.vocab_size;
    case Axis::kPositionRows:
      return spec.max_position + spec.position_offset;
    case Axis::kTypes:
    case Axis::kOutputs:
    case Axis::kColbertDims:
    case Axis::kBuckets:
      return ExtentOfEncoder(spec, axis);
    case Axis::kHeads:
    case Axis::kQueries:
    case Axis::kAttended:
      return spec.num_heads * NumbersOfHead(l, axis);
    case Axis::kKeyValues:
    case Axis::kValues:
      return l.num_kv_heads * NumbersOfHead(l, axis);
    case Axis::kQueryRank:
    case Axis::kLatent:
    case Axis::kKeyPartDim:
      return ExtentOfLatents(spec.latent, axis);
    case Axis::kLatents:
    case Axis::kQueryParts:
    case Axis::kKeyParts:
    case Axis::kValueParts:
      return spec.num_heads * NumbersPerHead(spec.latent, axis);
    case Axis::kMlp:
      return l.intermediate_size;
    case Axis::kExperts:
    case Axis::kExpertMlp:
    case Axis::kSharedMlp:
      return ExtentOfMixture(spec.mixture, axis);
    case Axis::kChannels:
      return spec.recurrence.channels;
    case Axis::kStateHeads:
      return spec.recurrence.value_heads;
    case Axis::kStateKeys:
      return spec.recurrence.key_heads * spec.recurrence.key_dim;
    case Axis::kStateValues:
      return spec.recurrence.value_heads * spec.recurrence.value_dim;
    case Axis::kStateHeadDim:
      return spec.recurrence.value_dim;
    case Axis::kTaps:
      return spec.recurrence.taps;
  }
  Fail("unknown axis");
}

RowPlaces PlacesOf(const ModelSpec& spec, const std::vector<WeightSpec>& weights, const WeightSpec& weight,
                   int64_t layer, Naming naming) {
  const LayerSpec& l = spec.layers[static_cast<size_t>(layer)];
  const int64_t rows = Extent(spec, weight.rows, layer);
  if (weight.fusion == Fusion::kNone) return {0, std::max<int64_t>(1, rows), std::max<int64_t>(1, rows), rows};
  const std::string_view name = PatternOf(weight, naming);
  const int64_t groups = GroupsOf(spec, l, weight.fusion, rows);
  int64_t before = 0, total = 0;
  for (const WeightSpec& other : weights) {
    if (!HasRole(l, other.role) || PatternOf(other, naming) != name) continue;
    if (other.role == weight.role) before = total;
    total += Extent(spec, other.rows, layer);
  }
  return {before / groups, rows / groups, total / groups, total};
}

std::vector<ExpectedTensor> ExpectedTensors(const ModelSpec& spec, const std::vector<WeightSpec>& weights,
                                            Naming naming) {
  std::vector<ExpectedTensor> expected;
  for (auto weight = weights.begin(); weight != weights.end();) {
    if (!IsOfLayer(weight->role)) {
      Expect(spec, weights, *weight++, 0, naming, expected);
      continue;
    }
    const auto end = std::find_if_not(weight, weights.end(), [](const WeightSpec& w) { return IsOfLayer(w.role); });
    for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
      for (auto w = weight; w != end; ++w) {
        if (HasRole(spec.layers[static_cast<size_t>(layer)], w->role))
          Expect(spec, weights, *w, layer, naming, expected);
      }
    }
    weight = end;
  }
  return expected;
}

}  // namespace quire
