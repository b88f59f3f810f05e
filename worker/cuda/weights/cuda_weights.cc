#include "worker/cuda/weights/cuda_weights.h"

#include <cmath>
#include <span>

#include "comm/base/error.h"
#include "comm/model/formats/scaled_matrix.h"
#include "kernels/cuda/products/quantized_gemm.h"
#include "worker/cuda/weights/cuda_weight_layout.h"
#include "worker/cuda/weights/gate_up_rows.h"
#include "worker/cuda/weights/uploader.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// Uploads one rank's weights.
class Loader {
 public:
  Loader(const ModelFiles& files, const RankShard& shard, NumberType dtype, Uploader& uploader)
      : files_(files), shard_(shard), element_(ByteSize(dtype)), uploader_(uploader) {}

  void Load(int64_t layer, const CudaLayerWeights& to) {
    const LayerSpec& spec = files_.spec().layers[static_cast<size_t>(layer)];
    Vector(to.attention_norm, Role::kAttentionNorm, layer);
    Vector(to.attention_norm_bias, Role::kAttentionNormBias, layer);
    Vector(to.mlp_norm, Role::kMlpNorm, layer);
    Vector(to.mlp_norm_bias, Role::kMlpNormBias, layer);
    Vector(to.attention_after_norm, Role::kAttentionAfterNorm, layer);
    Vector(to.mlp_after_norm, Role::kMlpAfterNorm, layer);
    Vector(to.attention_out_bias, Role::kAttentionOutBias, layer);
    Vector(to.up_bias, Role::kUpBias, layer, CudaWeights::MlpWidth(shard_, layer));
    Vector(to.down_bias, Role::kDownBias, layer);
    if (spec.has_attention()) LoadAttention(layer, to);
    if (spec.has_state()) LoadMixer(files_, shard_, layer, to.mixer, uploader_);
    const int64_t hidden = files_.spec().hidden_size;
    if (const int64_t inputs = files_.spec().layer_input_size; inputs > 0) {
      Matrix(to.input_gate, Role::kLayerInputGate, layer, hidden);
      Matrix(to.input_out, Role::kLayerInputOut, layer, inputs);
      Vector(to.input_norm, Role::kLayerInputNorm, layer);
    }
    if (spec.mixture) {
      LoadMixture(layer, to);
    } else if (spec.mlp) {
      Place(to.mlp_in, InRows(Role::kGate, Role::kUp, layer, 0, CudaWeights::MlpWidth(shard_, layer)),
            Slice(Role::kUp, layer).cols, hidden);
      Place(to.down, Rows(Role::kDown, layer), Slice(Role::kDown, layer).cols, CudaWeights::MlpWidth(shard_, layer));
    }
    transposed_.clear();
  }

  void LoadAttention(int64_t layer, const CudaLayerWeights& to) {
    for (const QkvPart& part : to.qkv) {
      std::vector<RowSource> rows;
      for (const Role role : part.roles) {
        const std::vector<RowSource> more = Rows(role, layer);
        rows.insert(rows.end(), more.begin(), more.end());
      }
      Place(part.matrix, rows, Slice(Role::kQuery, layer).cols, files_.spec().hidden_size);
    }
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
    if (files_.spec().latent.rank > 0) LoadLatents(files_, shard_, layer, to.latents, uploader_);
    const Range heads = Slice(Role::kAttentionOut, layer).cols;
    Place(to.attention_out, Rows(Role::kAttentionOut, layer), heads, heads.size());
  }

  void LoadMixture(int64_t layer, const CudaLayerWeights& to) {
    const Mixture& m = files_.spec().mixture;
    const int64_t hidden = files_.spec().hidden_size, width = CudaWeights::ExpertWidth(shard_);
    const Range all{0, hidden};
    std::vector<RowSource> router = Rows(Role::kRouter, layer);
    if (m.shared_gate) router.push_back(Rows(Role::kSharedScale, layer).front());
    router.resize(static_cast<size_t>(CudaWeights::RouterWidth(files_.spec())));
    uploader_.Upload(to.router, router, all, hidden);
    Vector(to.norms_apart.router, Role::kRouterNorm, layer);
    Vector(to.norms_apart.experts, Role::kExpertsNorm, layer);
    Vector(to.norms_apart.experts_after, Role::kExpertsAfterNorm, layer);
    Vector(to.norms_apart.shared_after, Role::kSharedAfterNorm, layer);
    DeviceMatrix in = to.experts_in, down = to.experts_down;
    const auto next = [&](DeviceMatrix& matrix, int64_t rows, int64_t cols) {
      const int64_t bytes =
          matrix.quantized ? kernels::QuantizedBytes(*matrix.quantized, rows, cols) : rows * cols * element_;
      matrix.data = static_cast<std::byte*>(matrix.data) + bytes;
    };
    for (int64_t expert = shard_.experts.begin; expert < shard_.experts.end; ++expert) {
      const std::vector<RowSource> rows = InRows(Role::kExpertGate, Role::kExpertUp, layer, expert, width);
      Place(in, rows, all, hidden);
      Place(down, Rows(Role::kExpertDown, layer, expert), Slice(Role::kExpertDown, layer).cols, width);
      if (m.expert_biases) LoadExpertBiases(layer, expert, to);
      next(in, std::ssize(rows), hidden);
      next(down, hidden, width);
      transposed_.clear();
    }
    if (m.shared_intermediate_size == 0) return;
    const int64_t shared = CudaWeights::SharedWidth(shard_);
    Place(to.shared_in, InRows(Role::kSharedGate, Role::kSharedUp, layer, 0, shared), all, hidden);
    Place(to.shared_down, Rows(Role::kSharedDown, layer), Slice(Role::kSharedDown, layer).cols, shared);
  }

  void LoadExpertBiases(int64_t layer, int64_t expert, const CudaLayerWeights& to) const {
    const auto place = [&](void* of_all, int64_t width) {
      return static_cast<std::byte*>(of_all) + (expert - shard_.experts.begin) * width * element_;
    };
    const int64_t hidden = files_.spec().hidden_size, width = 2 * CudaWeights::ExpertWidth(shard_);
    std::vector<float> in(static_cast<size_t>(width));
    for (const bool up : {false, true}) {
      int64_t column = 0;
      for (const float bias :
           ReadVector(files_, shard_, up ? Role::kExpertUpBias : Role::kExpertGateBias, layer, expert)) {
        in[static_cast<size_t>(kernels::SkinnyGateUpRow(column++, up))] = bias;
      }
    }
    Numbers(place(to.experts_in_bias, width), in, width);
    Numbers(place(to.experts_down_bias, hidden), ReadVector(files_, shard_, Role::kExpertDownBias, layer, expert),
            hidden);
  }

  /// Uploads rows. Plain rows are padded with zeros up to `width` columns; quantised rows have no padding.
  void Place(const DeviceMatrix& to, const std::vector<RowSource>& rows, Range cols, int64_t width) {
    if (to.quantized) {
      uploader_.UploadQuantized(to.data, rows, cols, *to.quantized);
    } else {
      uploader_.Upload(to.data, rows, cols, width);
    }
  }
  /// Uploads a matrix, padded with zeros up to `width` columns.
  void Matrix(void* to, Role role, int64_t layer, int64_t width) {
    uploader_.Upload(to, Rows(role, layer), Slice(role, layer).cols, width);
  }

  /// Uploads a vector, padded with zeros up to `width`. Returns its length; 0 if the model has no such vector.
  int64_t Vector(void* to, Role role, int64_t layer, int64_t width = 0) const {
    const std::vector<float> part = ReadVector(files_, shard_, role, layer);
    Numbers(to, part, width);
    return static_cast<int64_t>(part.size());
  }

  void Numbers(void* to, const std::vector<float>& numbers, int64_t width) const {
    const auto count = static_cast<int64_t>(numbers.size());
    const Tensor row{NumberType::kF32, {count}, std::as_bytes(std::span(numbers))};
    if (count > 0) uploader_.Upload(to, {{&row, 0}}, {0, count}, std::max(count, width));
  }

 private:
  WeightSlice Slice(Role role, int64_t layer) const { return SliceOf(files_, shard_, role, layer); }

  /// Returns the tensor, transposed if necessary. A transposed copy lives until the layer is loaded.
  const Tensor& Stored(Role role, int64_t layer, int64_t expert) {
    const Tensor& tensor = files_.Get(role, layer, expert);
    if (tensor.scaled != nullptr) tensor.scaled->Check(files_.path());
    if (!files_.weight(role).transposed) return tensor;
    const auto [place, is_new] = transposed_.try_emplace(&tensor);
    if (is_new) place->second.tensor = Transposed(tensor, place->second.room);
    return place->second.tensor;
  }

  std::vector<RowSource> Rows(Role role, int64_t layer, int64_t expert = 0) {
    std::vector<RowSource> sources;
    const Tensor& tensor = Stored(role, layer, expert);
    for (const int64_t row : Slice(role, layer).rows) sources.push_back({&tensor, row});
    return sources;
  }

  /// Returns the rows of the first weight of an MLP or expert: `width` rows of ups, or `width` rows each of gates and
  /// of ups in the order of Alternating. Padding rows are zeros.
  std::vector<RowSource> InRows(Role of_gates, Role of_ups, int64_t layer, int64_t expert, int64_t width) {
    std::vector<RowSource> up = Rows(of_ups, layer, expert);
    if (files_.spec().gated_mlp) return Alternating(Rows(of_gates, layer, expert), up, width);
    up.resize(static_cast<size_t>(width));
    return up;
  }

  struct TransposedTensor {
    Tensor tensor;
    std::vector<std::byte> room;
  };

  const ModelFiles& files_;
  const RankShard& shard_;
  int64_t element_;
  std::map<const Tensor*, TransposedTensor> transposed_;  // keyed by the original tensor
  Uploader& uploader_;
};

}  // namespace

int64_t CudaWeights::Bytes(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                           const std::vector<LayerForms>& forms) {
  const CudaWeightLayout layout(spec, shard, dtype, forms, nullptr);
  return layout.pieces.taken() + layout.expanded_bytes;
}

CudaWeights::CudaWeights(const ModelFiles& files, const RankShard& shard, NumberType dtype, Device& device, int threads,
                         const std::function<void(int64_t, int64_t)>& progress, const std::vector<LayerForms>& forms)
    : notes_(NotesOnExpanded(files, shard, forms)) {
  const ModelSpec& spec = files.spec();
  const CudaWeightLayout sizes(spec, shard, dtype, forms, nullptr);
  memory_ = device.Allocate(sizes.pieces.taken(), "the model's weights");
  expanded_ = device.Allocate(sizes.expanded_bytes, "rows of quantised weights");
  CudaWeightPlaces::operator=(CudaWeightLayout(spec, shard, dtype, forms, memory_.as()));

  Uploader uploader(device, dtype, threads, [&](int64_t done) { progress(done, memory_.bytes()); });
  Loader loader(files, shard, dtype, uploader);
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    CudaLayerWeights& layer = layers[static_cast<size_t>(i)];
    loader.Load(i, layer);
    if (spec.layer_scales) layer.scale = ReadVector(files, shard, Role::kLayerScale, i).front();
  }
  if (spec.value_norm) loader.Numbers(value_norm, std::vector<float>(static_cast<size_t>(LargestHead(spec)), 1), 0);
  if (spec.layer_input_size > 0) {
    loader.Matrix(layer_embedding, Role::kLayerEmbedding, 0, spec.num_layers() * spec.layer_input_size);
    loader.Matrix(layer_projection, Role::kLayerProjection, 0, spec.hidden_size);
    std::vector<float> norm = ReadVector(files, shard, Role::kLayerProjectionNorm);
    for (float& weight : norm) weight *= std::sqrt(0.5f);
    loader.Numbers(layer_projection_norm, norm, 0);
  }
  loader.Vector(embedding_norm, Role::kEmbeddingNorm, 0);
  loader.Vector(embedding_norm_bias, Role::kEmbeddingNormBias, 0);
  loader.Vector(final_norm, Role::kFinalNorm, 0);
  loader.Vector(final_norm_bias, Role::kFinalNormBias, 0);
  if (positions != nullptr) loader.Matrix(positions, Role::kPositions, 0, spec.hidden_size);
  loader.Matrix(embedding, Role::kEmbedding, 0, spec.hidden_size);
  if (!spec.tied_embeddings) loader.Matrix(head, Role::kHead, 0, spec.hidden_size);
}

}  // namespace quire
