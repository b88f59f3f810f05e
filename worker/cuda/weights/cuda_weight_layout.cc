#include "worker/cuda/weights/cuda_weight_layout.h"

#include <algorithm>

#include "comm/base/error.h"
#include "kernels/cuda/products/quantized_gemm.h"

namespace quire {

namespace {

/// Returns how many rows a matrix has on the device.
int64_t HeightOf(const PlannedWeight& planned) {
  if (planned.place == WeightPlace::kMixerIn) return CudaMixerWidth(planned.rows());
  if (planned.place == WeightPlace::kRouter) return CudaRouterWidth(planned.parts.front().rows.size());
  int64_t rows = 0;
  for (const PlannedPart& part : planned.parts) rows += SizeOnDevice(part.rows);
  return rows;
}

}  // namespace

std::map<WeightPlace, DeviceMember> MembersOf(CudaLayerWeights& w) {
  using enum WeightPlace;
  return {{kAttentionOut, &w.attention_out},
          {kQueryIn, &w.latents.query_in},
          {kLatentIn, &w.latents.in},
          {kLatentQuery, &w.latents.query},
          {kLatentKeys, &w.latents.keys},
          {kLatentValues, &w.latents.values},
          {kMixerIn, &w.mixer.in},
          {kMixerOut, &w.mixer.out},
          {kMlpIn, &w.mlp_in},
          {kDown, &w.down},
          {kRouter, &w.router},
          {kExpertsIn, &w.experts_in},
          {kExpertsDown, &w.experts_down},
          {kSharedIn, &w.shared_in},
          {kSharedDown, &w.shared_down},
          {kInputGate, &w.input_gate},
          {kInputOut, &w.input_out},
          {kAttentionNorm, &w.attention_norm},
          {kAttentionNormBias, &w.attention_norm_bias},
          {kAttentionAfterNorm, &w.attention_after_norm},
          {kQkvBias, &w.qkv_bias},
          {kQueryNorm, &w.query_norm},
          {kKeyNorm, &w.key_norm},
          {kAttentionOutBias, &w.attention_out_bias},
          {kQueryInNorm, &w.latents.query_norm},
          {kLatentNorm, &w.latents.norm},
          {kMlpNorm, &w.mlp_norm},
          {kMlpNormBias, &w.mlp_norm_bias},
          {kMlpAfterNorm, &w.mlp_after_norm},
          {kUpBias, &w.up_bias},
          {kDownBias, &w.down_bias},
          {kExpertsInBias, &w.experts_in_bias},
          {kExpertsDownBias, &w.experts_down_bias},
          {kRouterNorm, &w.norms_apart.router},
          {kExpertsNorm, &w.norms_apart.experts},
          {kExpertsAfterNorm, &w.norms_apart.experts_after},
          {kSharedAfterNorm, &w.norms_apart.shared_after},
          {kInputNorm, &w.input_norm},
          {kTaps, &w.mixer.taps},
          {kTapsBias, &w.mixer.taps_bias},
          {kRate, &w.mixer.rate},
          {kDecayBias, &w.mixer.decay_bias},
          {kSkip, &w.mixer.skip},
          {kStateNorm, &w.mixer.norm}};
}

std::map<WeightPlace, DeviceMember> MembersOf(CudaWeightPlaces& w) {
  using enum WeightPlace;
  return {{kInputProjection, &w.layer_projection},
          {kHead, &w.head},
          {kEmbedding, &w.embedding},
          {kPositions, &w.positions},
          {kLayerEmbedding, &w.layer_embedding},
          {kEmbeddingNorm, &w.embedding_norm},
          {kEmbeddingNormBias, &w.embedding_norm_bias},
          {kFinalNorm, &w.final_norm},
          {kFinalNormBias, &w.final_norm_bias},
          {kInputProjectionNorm, &w.layer_projection_norm}};
}

bool MayStayQuantized(WeightPlace place) {
  if (place == WeightPlace::kQkv) return true;
  CudaLayerWeights layer;
  const std::map<WeightPlace, DeviceMember> members = MembersOf(layer);
  const auto member = members.find(place);
  return member != members.end() && std::holds_alternative<DeviceMatrix*>(member->second);
}

CudaWeightLayout::CudaWeightLayout(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                                   const std::vector<LayerForms>& forms, std::byte* memory)
    : shard_(shard), dtype_(dtype), pieces_(memory) {
  const auto num_layers = static_cast<size_t>(spec.num_layers());
  layers.resize(num_layers);
  of_layers_.resize(num_layers);
  for (size_t i = 0; i < num_layers; ++i) PlaceLayer(spec, static_cast<int64_t>(i), forms[i]);
  PlaceOutsideLayers(spec);
  if (spec.value_norm) value_norm = pieces_.Take(LargestHead(spec) * ByteSize(dtype));
  if (spec.tied_embeddings && memory != nullptr)
    head = static_cast<std::byte*>(embedding) + shard.vocab.begin * spec.hidden_size * ByteSize(dtype);
}

void CudaWeightLayout::PlaceLayer(const ModelSpec& spec, int64_t layer, const LayerForms& forms) {
  const auto index = static_cast<size_t>(layer);
  const std::map<WeightPlace, DeviceMember> members = MembersOf(layers[index]);
  for (const PlannedWeight& planned : PlanLayer(spec, shard_, layer)) {
    if (planned.place == WeightPlace::kQkv) {
      PlaceQkv(planned, layer, forms);
    } else if (const auto member = members.find(planned.place); member != members.end()) {
      Place(planned, layer, forms.Of(planned.parts.front().role), member->second, of_layers_[index]);
    }
  }
}

void CudaWeightLayout::PlaceOutsideLayers(const ModelSpec& spec) {
  const std::map<WeightPlace, DeviceMember> members = MembersOf(*this);
  for (const PlannedWeight& planned : PlanOutsideLayers(spec, shard_)) {
    if (planned.place == WeightPlace::kHead && spec.tied_embeddings) continue;  // it is part of the embedding
    if (const auto member = members.find(planned.place); member != members.end())
      Place(planned, 0, {}, member->second, outside_layers_);
  }
}

void CudaWeightLayout::PlaceQkv(const PlannedWeight& planned, int64_t layer, const LayerForms& forms) {
  const auto index = static_cast<size_t>(layer);
  int64_t first = 0;
  for (auto part = planned.parts.begin(); part != planned.parts.end();) {
    const std::optional<NumberType> form = forms.Of(part->role);
    const auto end =
        std::find_if(part, planned.parts.end(), [&](const PlannedPart& other) { return forms.Of(other.role) != form; });
    const PlannedWeight alike = {planned.place, {part, end}, planned.cols};
    QkvPart& to = layers[index].qkv.emplace_back(QkvPart{{}, first, alike.rows()});
    Place(alike, layer, form, &to.matrix, of_layers_[index]);
    first += to.rows;
    part = end;
  }
}

void CudaWeightLayout::Place(const PlannedWeight& planned, int64_t layer, std::optional<NumberType> quantized,
                             DeviceMember member, std::vector<PlacedWeight>& placed) {
  PlacedWeight weight = {planned, layer};
  weight.quantized = quantized;
  weight.is_float = std::holds_alternative<float**>(member);
  const bool is_vector = !IsMatrix(planned.place) && !IsTable(planned.place);
  weight.height = is_vector ? 1 : HeightOf(planned);
  weight.width = is_vector ? HeightOf(planned) * planned.cols.size() : SizeOnDevice(planned.cols);
  const int64_t element = weight.is_float ? ByteSize(NumberType::kF32) : ByteSize(dtype_);
  weight.bytes = quantized ? kernels::QuantizedBytes(*quantized, weight.height, weight.width)
                           : weight.height * weight.width * element;
  weight.data = pieces_.Take(weight.bytes * (IsOfExperts(planned.place) ? shard_.experts.size() : 1));
  if (DeviceMatrix** const matrix = std::get_if<DeviceMatrix*>(&member); matrix != nullptr) {
    **matrix = {weight.data, quantized};
  } else {
    QUIRE_CHECK(!quantized, "place {} has plain numbers only", static_cast<int>(planned.place));
    if (void*** const plain = std::get_if<void**>(&member); plain != nullptr) **plain = weight.data;
    if (float*** const floats = std::get_if<float**>(&member); floats != nullptr)
      **floats = reinterpret_cast<float*>(weight.data);
  }
  if (quantized && !IsOfExperts(planned.place)) {
    // The memory for expanded rows is at most about as large as the GPU's second-level cache (but has room for 8 rows),
    // because a part of a matrix is read right after it was expanded.
    constexpr int64_t kMost = int64_t{32} << 20;
    const int64_t row = weight.width * element;
    expanded_bytes = std::max(expanded_bytes, std::min(weight.height * row, std::max(kMost, 8 * row)));
  }
  placed.push_back(std::move(weight));
}

}  // namespace quire
