#pragma once

#include "worker/cuda/device/pieces.h"
#include "worker/cuda/weights/cuda_weight_places.h"

namespace quire {

/// Assigns an address in device memory to every weight. With null memory, the same code only counts the bytes.
struct CudaWeightLayout : CudaWeightPlaces {
  CudaWeightLayout(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                   const std::vector<LayerForms>& forms, std::byte* memory);

  Pieces pieces;

 private:
  std::vector<QkvPart> PlaceQkv(const ModelSpec& spec, const RankShard& shard, int64_t layer, const LayerForms& form,
                                NumberType dtype);
  CudaMixtureNorms PlaceNorms(const Mixture& mixture, int64_t bytes);
};

}  // namespace quire
