#include "worker/cuda/cuda_weights.h"

#include <span>

#include "comm/error.h"
#include "kernels/cuda/skinny_gemm.h"
#include "worker/cuda/pieces.h"
#include "worker/cuda/uploader.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// Gives every weight its place; the same walk counts bytes and places weights.
struct Layout {
  Layout(const ModelSpec& spec, const RankShard& shard, kernels::DType dtype, std::byte* memory) : pieces(memory) {
    const int64_t element = kernels::ByteSize(dtype), hidden = spec.hidden_size, mlp = CudaWeights::MlpWidth(shard);
    const int64_t heads = shard.heads.size() * spec.head_dim, kv = shard.kv_heads.size() * spec.head_dim;
    const auto take = [&](int64_t rows, int64_t cols) -> void* { return pieces.Take(rows * cols * element); };
    const auto take_if = [&](bool there, int64_t count) { return there ? take(1, count) : nullptr; };
    const bool whole = spec.qk_norm == QkNorm::kWhole, norms = spec.qk_norm != QkNorm::kNone;
    for (int64_t i = 0; i < spec.num_layers(); ++i) {
      layers.push_back({.attention_norm = take_if(spec.norms_before, hidden),
                        .mlp_norm = take_if(spec.norms_before, hidden),
                        .attention_after_norm = take_if(spec.norms_after, hidden),
                        .mlp_after_norm = take_if(spec.norms_after, hidden),
                        .qkv = take(heads + 2 * kv, hidden),
                        .qkv_bias = take_if(spec.qkv_bias, heads + 2 * kv),
                        .query_norm = take_if(norms, whole ? heads : spec.head_dim),
                        .key_norm = take_if(norms, whole ? kv : spec.head_dim),
                        .attention_out = take(hidden, heads),
                        .gate_up = take(2 * mlp, hidden),
                        .down = take(hidden, mlp)});
    }
    final_norm = take(1, hidden);
    embedding = take(spec.vocab_size, hidden);
    if (!spec.tied_embeddings) {
      head = take(shard.vocab.size(), hidden);
    } else if (memory != nullptr) {
      head = static_cast<std::byte*>(embedding) + shard.vocab.begin * hidden * element;
    }
  }

  Pieces pieces;
  std::vector<CudaLayerWeights> layers;
  void *final_norm, *embedding, *head = nullptr;
};

/// Uploads one rank's weights.
class Loader {
 public:
  Loader(const ModelFiles& files, const RankShard& shard, kernels::DType dtype, Uploader& uploader)
      : files_(files), shard_(shard), element_(kernels::ByteSize(dtype)), uploader_(uploader) {}

  void Load(int64_t layer, const CudaLayerWeights& to) const {
    if (files_.spec().norms_before) {
      Vector(to.attention_norm, Role::kAttentionNorm, layer);
      Vector(to.mlp_norm, Role::kMlpNorm, layer);
    }
    if (files_.spec().norms_after) {
      Vector(to.attention_after_norm, Role::kAttentionAfterNorm, layer);
      Vector(to.mlp_after_norm, Role::kMlpAfterNorm, layer);
    }
    std::vector<RowSource> qkv;
    for (const Role role : {Role::kQuery, Role::kKey, Role::kValue}) {
      const std::vector<RowSource> rows = Rows(role, layer);
      qkv.insert(qkv.end(), rows.begin(), rows.end());
    }
    const int64_t hidden = files_.spec().hidden_size, mlp = CudaWeights::MlpWidth(shard_);
    uploader_.Upload(to.qkv, qkv, Slice(Role::kQuery).cols, hidden);
    if (files_.spec().qkv_bias) {
      auto* bias = static_cast<std::byte*>(to.qkv_bias);
      for (const Role role : {Role::kQueryBias, Role::kKeyBias, Role::kValueBias}) {
        bias += Vector(bias, role, layer) * element_;
      }
    }
    if (files_.spec().qk_norm != QkNorm::kNone) {
      Vector(to.query_norm, Role::kQueryNorm, layer);
      Vector(to.key_norm, Role::kKeyNorm, layer);
    }
    Matrix(to.attention_out, Role::kAttentionOut, layer, Slice(Role::kAttentionOut).cols.size());
    uploader_.Upload(to.gate_up, GateUpRows(layer), Slice(Role::kGate).cols, hidden);
    Matrix(to.down, Role::kDown, layer, mlp);
  }

  /// Columns beyond the rank's are zeros up to `width`.
  void Matrix(void* to, Role role, int64_t layer, int64_t width) const {
    uploader_.Upload(to, Rows(role, layer), Slice(role).cols, width);
  }

  /// Returns how many numbers it has.
  int64_t Vector(void* to, Role role, int64_t layer) const {
    const std::vector<float> part = ReadVector(files_, shard_, role, layer);
    const auto count = static_cast<int64_t>(part.size());
    const Tensor row{TensorType::kF32, {count}, std::as_bytes(std::span(part))};
    uploader_.Upload(to, {{&row, 0}}, {0, count}, count);
    return count;
  }

 private:
  WeightSlice Slice(Role role) const { return SliceOf(files_.spec(), files_.weight(role), shard_); }

  std::vector<RowSource> Rows(Role role, int64_t layer) const {
    std::vector<RowSource> sources;
    for (const int64_t row : Slice(role).rows) sources.push_back({&files_.Get(role, layer), row});
    return sources;
  }

  std::vector<RowSource> GateUpRows(int64_t layer) const {
    std::vector<RowSource> rows(static_cast<size_t>(2 * CudaWeights::MlpWidth(shard_)));
    for (const bool up : {false, true}) {
      int64_t column = 0;
      for (const RowSource& row : Rows(up ? Role::kUp : Role::kGate, layer)) {
        rows[static_cast<size_t>(kernels::SkinnyGateUpRow(column++, up))] = row;
      }
    }
    return rows;
  }

  const ModelFiles& files_;
  const RankShard& shard_;
  int64_t element_;
  Uploader& uploader_;
};

}  // namespace

int64_t CudaWeights::Bytes(const ModelSpec& spec, const RankShard& shard, kernels::DType dtype) {
  return Layout(spec, shard, dtype, nullptr).pieces.taken();
}

CudaWeights::CudaWeights(const ModelFiles& files, const RankShard& shard, kernels::DType dtype, Device& device,
                         int threads, const std::function<void(int64_t, int64_t)>& progress)
    : memory_(device.Allocate(Bytes(files.spec(), shard, dtype), "the model's weights")) {
  const ModelSpec& spec = files.spec();
  Layout layout(spec, shard, dtype, memory_.as());
  layers = std::move(layout.layers);
  final_norm = layout.final_norm;
  embedding = layout.embedding;
  head = layout.head;

  Uploader uploader(device, dtype, threads, [&](int64_t done) { progress(done, memory_.bytes()); });
  const Loader loader(files, shard, dtype, uploader);
  for (int64_t i = 0; i < spec.num_layers(); ++i) loader.Load(i, layers[static_cast<size_t>(i)]);
  loader.Vector(final_norm, Role::kFinalNorm, 0);
  loader.Matrix(embedding, Role::kEmbedding, 0, spec.hidden_size);
  if (!spec.tied_embeddings) loader.Matrix(head, Role::kHead, 0, spec.hidden_size);
}

}  // namespace quire
