#pragma once

#include "comm/model/model_spec.h"
#include "worker/cuda/device/pieces.h"
#include "worker/cuda/weights/cuda_mixer_weights.h"
#include "worker/model/mixer_shape.h"

namespace quire {

/// Device buffers between the two products of layers with a recurrent state, for T tokens. The buffers have size 0 in
/// models without such layers and on ranks without a part of such layers.
struct CudaMixerActivations {
  CudaMixerActivations(const ModelSpec& spec, const RankShard& shard, NumberType dtype, int64_t max_tokens,
                       Pieces& pieces)
      : shape(spec, shard),
        in_stride(CudaMixerWidth(shape.in_width)),
        in(pieces.Take(max_tokens * in_stride * ByteSize(dtype))),
        out(pieces.Take(max_tokens * shape.out_width * ByteSize(dtype))),
        squares(pieces.Take<float>(shape.mixer == Mixer::kStateSpace ? max_tokens * spec.recurrence.key_heads : 0)) {}

  MixerShape shape;
  int64_t in_stride;  // numbers between rows of `in`
  void* in;           // [T, in_stride], in the order of MixerShape
  void* out;          // [T, out_width]
  float* squares;     // [T, groups], state spaces only
};

}  // namespace quire
