#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/cuda_weight_places.h"
#include "worker/cuda/device.h"
#include "worker/model/shard.h"

namespace quire {

/// A rank's shard of the model on its device, in one type. The embedding is whole on every rank; a tied head is part of
/// it.
class CudaWeights : public CudaWeightPlaces {
 public:
  /// Loads. `progress` is called with bytes done and bytes in all.
  CudaWeights(const ModelFiles& files, const RankShard& shard, NumberType dtype, Quantization quantization,
              Device& device, int threads, const std::function<void(int64_t, int64_t)>& progress)
      : CudaWeights(files, shard, dtype, device, threads, progress, FormsOnDevice(files, shard, dtype, quantization)) {}

  /// Bytes that the constructor takes of the device.
  static int64_t Bytes(const ModelFiles& files, const RankShard& shard, NumberType dtype, Quantization quantization) {
    return Bytes(files.spec(), shard, dtype, FormsOnDevice(files, shard, dtype, quantization));
  }
  static int64_t Bytes(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                       const std::vector<LayerForms>& forms);

  /// MLP columns of the rank, rounded up so that rows are whole 16-byte pieces and gates alternate with ups.
  static int64_t MlpWidth(const RankShard& shard, int64_t layer) {
    return (shard.layer(layer).mlp.size() + 15) / 16 * 16;
  }
  static int64_t ExpertWidth(const RankShard& shard) { return (shard.expert_mlp.size() + 15) / 16 * 16; }
  static int64_t SharedWidth(const RankShard& shard) { return (shard.shared_mlp.size() + 15) / 16 * 16; }
  /// Rows of a router, rounded up to whole vectors of logits.
  static int64_t RouterWidth(const ModelSpec& spec) { return (spec.mixture.experts + 8) / 8 * 8; }

  int64_t bytes() const { return memory_.bytes() + expanded_.bytes(); }
  /// Where rows of quantised weights are expanded; of 0 bytes where there are none. Memory of its own: kernels write
  /// it, and read weights without waiting for those before them.
  const DeviceMemory& expanded() const { return expanded_; }
  const std::vector<std::string>& notes() const { return notes_; }  // NotesOnExpanded

 private:
  CudaWeights(const ModelFiles& files, const RankShard& shard, NumberType dtype, Device& device, int threads,
              const std::function<void(int64_t, int64_t)>& progress, const std::vector<LayerForms>& forms);

  DeviceMemory memory_, expanded_;
  std::vector<std::string> notes_;
};

}  // namespace quire
