#pragma once

#include "comm/model/model_files.h"
#include "worker/cuda/pieces.h"
#include "worker/cuda/uploader.h"
#include "worker/model/mixer_shape.h"

namespace quire {

/// One rank's weights of a layer that keeps a state, in device memory; all null in other layers. What is no matrix is
/// fp32, whatever the matrices are.
struct CudaMixerWeights {
  void* in = nullptr;          // [CudaMixerWidth, hidden]: rows in the order of MixerShape, then zeros
  void* out = nullptr;         // [hidden, MixerShape::out_width]
  float* taps = nullptr;       // [taps, ConvolvedChannels], the oldest token's first
  float* taps_bias = nullptr;  // [ConvolvedChannels], or null
  // Of heads that keep a state: [local value heads] each.
  float *rate = nullptr, *decay_bias = nullptr;
  float* skip = nullptr;  // likewise, of state spaces
  float* norm = nullptr;  // [value_dim], or of state spaces [local values]
};

/// Numbers in a row of what goes into a mixer: rounded up, so that rows are whole 16-byte pieces.
inline int64_t CudaMixerWidth(const MixerShape& shape) { return (shape.in_width + 7) / 8 * 8; }

/// Gives the weights of such a layer their place.
CudaMixerWeights PlaceMixer(const ModelSpec& spec, const RankShard& shard, NumberType dtype, Pieces& pieces);

/// Uploads them.
void LoadMixer(const ModelFiles& files, const RankShard& shard, int64_t layer, const CudaMixerWeights& to,
               Uploader& uploader);

}  // namespace quire
