#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/weights/cuda_weight_places.h"
#include "worker/model/shard.h"

namespace quire {

/// A rank's shard of the model on its device. Every rank has the whole embedding; a tied head is part of it.
class CudaWeights : public CudaWeightPlaces {
 public:
  /// Loads the weights. Calls `progress` with the bytes done and the total bytes.
  CudaWeights(const ModelFiles& files, const RankShard& shard, NumberType dtype, Quantization quantization,
              Device& device, int threads, const std::function<void(int64_t, int64_t)>& progress)
      : CudaWeights(files, shard, dtype, device, threads, progress, FormsOnDevice(files, shard, dtype, quantization)) {}

  /// Returns the bytes of device memory that the constructor takes.
  static int64_t Bytes(const ModelFiles& files, const RankShard& shard, NumberType dtype, Quantization quantization) {
    return Bytes(files.spec(), shard, dtype, FormsOnDevice(files, shard, dtype, quantization));
  }
  static int64_t Bytes(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                       const std::vector<LayerForms>& forms);

  /// Returns the rank's MLP columns, with padding (SizeOnDevice).
  static int64_t MlpWidth(const RankShard& shard, int64_t layer) {
    return SizeOnDevice({Axis::kMlp, shard.layer(layer).mlp});
  }
  static int64_t ExpertWidth(const RankShard& shard) { return SizeOnDevice({Axis::kExpertMlp, shard.expert_mlp}); }
  static int64_t SharedWidth(const RankShard& shard) { return SizeOnDevice({Axis::kSharedMlp, shard.shared_mlp}); }
  static int64_t RouterWidth(const ModelSpec& spec) { return CudaRouterWidth(spec.mixture.experts); }

  int64_t bytes() const { return memory_.bytes() + expanded_.bytes(); }
  /// Returns the memory for expanded rows of quantised weights; 0 bytes if there are none. It is allocated apart from
  /// the weights because kernels write to it, and kernels read weights without waiting for earlier kernels.
  const DeviceMemory& expanded() const { return expanded_; }
  const std::vector<std::string>& notes() const { return notes_; }  // lines for the log (NotesOnExpanded)

 private:
  CudaWeights(const ModelFiles& files, const RankShard& shard, NumberType dtype, Device& device, int threads,
              const std::function<void(int64_t, int64_t)>& progress, const std::vector<LayerForms>& forms);

  DeviceMemory memory_, expanded_;
  std::vector<std::string> notes_;
};

}  // namespace quire
