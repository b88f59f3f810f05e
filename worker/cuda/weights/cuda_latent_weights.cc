#include "worker/cuda/weights/cuda_latent_weights.h"

#include "kernels/cuda/products/quantized_gemm.h"
#include "worker/model/stored_rows.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// Uploads the heads' matrices [key_dim, rank], one below the other in `rows`, each transposed to [rank, key_dim].
void UploadTurned(void* to, const std::vector<RowSource>& rows, const LatentAttention& latent, Uploader& uploader) {
  const int64_t rank = latent.rank, dim = latent.key_dim;
  std::vector<float> row(static_cast<size_t>(rank)), turned(rows.size() * static_cast<size_t>(rank));
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const RowSource& source = rows[static_cast<size_t>(i)];
    DecodeRow(*source.tensor, source.row, 0, rank, row.data());
    float* column = turned.data() + i / dim * rank * dim + i % dim;
    for (int64_t r = 0; r < rank; ++r) column[r * dim] = row[static_cast<size_t>(r)];
  }
  const int64_t count = std::ssize(turned) / dim;
  const Tensor tensor{NumberType::kF32, {count, dim}, std::as_bytes(std::span(turned))};
  std::vector<RowSource> sources;
  for (int64_t i = 0; i < count; ++i) sources.push_back({&tensor, i});
  uploader.Upload(to, sources, {0, dim}, dim);
}

}  // namespace

CudaLatentWeights PlaceLatents(const ModelSpec& spec, const RankShard& shard, NumberType dtype, const LayerForms& form,
                               Pieces& pieces) {
  const LatentAttention& latent = spec.latent;
  if (latent.rank == 0) return {};
  const int64_t heads = shard.heads.size(), hidden = spec.hidden_size, element = ByteSize(dtype);
  const auto matrix = [&](int64_t rows, int64_t cols, std::optional<NumberType> type) -> DeviceMatrix {
    return {pieces.Take(type ? kernels::QuantizedBytes(*type, rows, cols) : rows * cols * element), type};
  };
  CudaLatentWeights to;
  if (latent.query_rank > 0) {
    to.query_in = matrix(latent.query_rank, hidden, form.query_in);
    to.query_norm = pieces.Take(latent.query_rank * element);
  }
  to.in = matrix(latent.rank + latent.rotated_dim, hidden, form.latent_in);
  to.query = matrix(heads * latent.query_dim(), latent.query_rank > 0 ? latent.query_rank : hidden, form.qkv[0]);
  to.norm = pieces.Take(latent.rank * element);
  to.keys = pieces.Take(heads * latent.rank * latent.key_dim * element);
  to.values = pieces.Take(heads * latent.value_dim * latent.rank * element);
  return to;
}

void LoadLatents(const ModelFiles& files, const RankShard& shard, int64_t layer, const CudaLatentWeights& to,
                 Uploader& uploader) {
  const LatentAttention& latent = files.spec().latent;
  const auto rows_of = [&](Role role) { return RowsOf(files, SliceOf(files, shard, role, layer), role, layer); };
  const auto matrix = [&](const DeviceMatrix& place, Role role) {
    const Range cols = SliceOf(files, shard, role, layer).cols;
    if (place.quantized) {
      uploader.UploadQuantized(place.data, rows_of(role), cols, *place.quantized);
    } else {
      uploader.Upload(place.data, rows_of(role), cols, cols.size());
    }
  };
  const auto vector = [&](void* place, Role role) {
    const std::vector<float> numbers = ReadVector(files, shard, role, layer);
    const Tensor row{NumberType::kF32, {std::ssize(numbers)}, std::as_bytes(std::span(numbers))};
    uploader.Upload(place, {{&row, 0}}, {0, std::ssize(numbers)}, std::ssize(numbers));
  };
  if (latent.query_rank > 0) {
    matrix(to.query_in, Role::kQueryIn);
    vector(to.query_norm, Role::kQueryInNorm);
  }
  matrix(to.in, Role::kLatentIn);
  matrix(to.query, Role::kQuery);
  vector(to.norm, Role::kLatentNorm);
  if (latent.by_head) {
    matrix({to.keys}, Role::kLatentKeys);
  } else {
    UploadTurned(to.keys, rows_of(Role::kLatentKeys), latent, uploader);
  }
  matrix({to.values}, Role::kLatentValues);
}

}  // namespace quire
