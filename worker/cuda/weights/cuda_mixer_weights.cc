#include "worker/cuda/weights/cuda_mixer_weights.h"

#include "worker/model/mixer_weights.h"
#include "worker/model/weight_slice.h"

namespace quire {

CudaMixerWeights PlaceMixer(const ModelSpec& spec, const RankShard& shard, NumberType dtype, Pieces& pieces) {
  const MixerShape shape(spec, shard);
  const Recurrence& r = spec.recurrence;
  const int64_t channels = ConvolvedChannels(spec, shard);
  const bool spaces = shape.mixer == Mixer::kStateSpace;
  const auto matrix = [&](int64_t rows, int64_t cols) -> void* { return pieces.Take(rows * cols * ByteSize(dtype)); };
  return {.in = matrix(CudaMixerWidth(shape), spec.hidden_size),
          .out = matrix(spec.hidden_size, shape.out_width),
          .taps = pieces.Take<float>(r.taps * channels),
          .taps_bias = r.taps_bias ? pieces.Take<float>(channels) : nullptr,
          .rate = pieces.Take<float>(shard.value_heads.size()),
          .decay_bias = pieces.Take<float>(shard.value_heads.size()),
          .skip = pieces.Take<float>(spaces ? shard.value_heads.size() : 0),
          .norm = pieces.Take<float>(spaces ? shape.out_width : r.value_dim)};
}

void LoadMixer(const ModelFiles& files, const RankShard& shard, int64_t layer, const CudaMixerWeights& to,
               Uploader& uploader) {
  const int64_t hidden = files.spec().hidden_size;
  const MixerShape shape(files.spec(), shard);
  std::vector<RowSource> in;
  for (const Role role : MixerInRoles(files, layer)) {
    const std::vector<RowSource> rows = RowsOf(files, SliceOf(files, shard, role, layer), role, layer);
    in.insert(in.end(), rows.begin(), rows.end());
  }
  in.resize(static_cast<size_t>(CudaMixerWidth(shape)));
  uploader.Upload(to.in, in, {0, hidden}, hidden);
  const Role role = MixerOutRole(files, layer);
  const WeightSlice out = SliceOf(files, shard, role, layer);
  const std::vector<RowSource> rows = RowsOf(files, out, role, layer);
  if (out.pieces.empty()) {
    uploader.Upload(to.out, rows, out.cols, shape.out_width);
  } else {
    uploader.UploadPieces(to.out, rows, out.pieces, shape.out_width);
  }
  const MixerVectors vectors = ReadMixerVectors(files, shard, layer);
  uploader.UploadFloats(to.taps, vectors.taps);
  uploader.UploadFloats(to.taps_bias, vectors.taps_bias);
  uploader.UploadFloats(to.rate, vectors.rate);
  uploader.UploadFloats(to.decay_bias, vectors.decay_bias);
  uploader.UploadFloats(to.skip, vectors.skip);
  uploader.UploadFloats(to.norm, vectors.norm);
}

}  // namespace quire
