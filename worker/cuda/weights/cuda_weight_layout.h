#pragma once

#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "worker/cuda/device/pieces.h"
#include "worker/cuda/weights/cuda_weight_places.h"
#include "worker/model/weight_plan.h"

namespace quire {

/// A member of the weights in device memory: a matrix that may stay quantised, a matrix or vector of the model's type,
/// or a vector of fp32.
using DeviceMember = std::variant<DeviceMatrix*, void**, float**>;

/// Returns the members that hold the weights of places. A device has no other weights, except kQkv, which is
/// CudaLayerWeights::qkv. CudaLayerWeights::scale is on the host, and CudaDecoder has tables of the layers' sinks, of
/// their routers' biases and corrections, of their experts' scales, and of the head's bias.
std::map<WeightPlace, DeviceMember> MembersOf(CudaLayerWeights& layer);
std::map<WeightPlace, DeviceMember> MembersOf(CudaWeightPlaces& model);
/// True for places whose matrices may stay quantised.
bool MayStayQuantized(WeightPlace place);

/// A planned weight and its address in device memory.
struct PlacedWeight : PlannedWeight {
  int64_t layer = 0;
  std::byte* data = nullptr;  // null if the layout only counts bytes
  std::optional<NumberType> quantized = {};
  bool is_float = false;  // fp32, whatever the model's type
  // Rows, and numbers in a row, with padding. A vector is one row. Of a weight of experts: of each expert.
  int64_t height = 0, width = 0;
  int64_t bytes = 0;  // of a weight of experts: of each expert
};

/// Assigns an address in device memory to every planned weight. With null memory, the same code only counts the bytes.
class CudaWeightLayout : public CudaWeightPlaces {
 public:
  CudaWeightLayout(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                   const std::vector<LayerForms>& forms, std::byte* memory);

  int64_t bytes() const { return pieces_.taken(); }
  /// Returns what must be uploaded.
  const std::vector<PlacedWeight>& of_layer(int64_t layer) const { return of_layers_[static_cast<size_t>(layer)]; }
  const std::vector<PlacedWeight>& outside_layers() const { return outside_layers_; }

 private:
  void PlaceLayer(const ModelSpec& spec, int64_t layer, const LayerForms& forms);
  void PlaceOutsideLayers(const ModelSpec& spec);
  /// Splits kQkv into parts of neighbouring roles that have the same form.
  void PlaceQkv(const PlannedWeight& planned, int64_t layer, const LayerForms& forms);
  /// Takes memory for the weight. Adds it to `placed`, and sets the member.
  void Place(const PlannedWeight& planned, int64_t layer, std::optional<NumberType> quantized, DeviceMember member,
             std::vector<PlacedWeight>& placed);

  const RankShard& shard_;
  NumberType dtype_;
  Pieces pieces_;
  std::vector<std::vector<PlacedWeight>> of_layers_;
  std::vector<PlacedWeight> outside_layers_;
};

}  // namespace quire
