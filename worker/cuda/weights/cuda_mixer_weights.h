#pragma once

#include "comm/model/model_files.h"
#include "worker/cuda/device/pieces.h"
#include "worker/cuda/weights/uploader.h"
#include "worker/model/mixer_shape.h"

namespace quire {

/// One rank's weights of a layer that keeps a recurrent state, in device memory. In other layers all pointers are null.
/// Vectors are fp32, whatever type the matrices have.
struct CudaMixerWeights {
  void* in = nullptr;          // [CudaMixerWidth, hidden]: rows in MixerShape's order, then zeros
  void* out = nullptr;         // [hidden, MixerShape::out_width]
  float* taps = nullptr;       // [taps, ConvolvedChannels]; the oldest token's tap comes first
  float* taps_bias = nullptr;  // [ConvolvedChannels], or null
  // Each of these vectors has one number for each local value head that keeps a state.
  float *rate = nullptr, *decay_bias = nullptr;
  float* skip = nullptr;  // [local value heads]; state spaces only
  float* norm = nullptr;  // [value_dim]; for state spaces [local values]
};

/// Returns how many numbers an input row of the layer has, rounded up so that rows are multiples of 16 bytes.
inline int64_t CudaMixerWidth(const MixerShape& shape) { return (shape.in_width + 7) / 8 * 8; }

/// Assigns memory to the weights of a layer that keeps a recurrent state.
CudaMixerWeights PlaceMixer(const ModelSpec& spec, const RankShard& shard, NumberType dtype, Pieces& pieces);

/// Uploads the weights of a layer that keeps a recurrent state.
void LoadMixer(const ModelFiles& files, const RankShard& shard, int64_t layer, const CudaMixerWeights& to,
               Uploader& uploader);

}  // namespace quire
