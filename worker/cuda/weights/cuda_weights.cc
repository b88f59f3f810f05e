#include "worker/cuda/weights/cuda_weights.h"

#include <map>
#include <span>

#include "comm/model/formats/scaled_matrix.h"
#include "worker/cuda/weights/cuda_weight_layout.h"
#include "worker/cuda/weights/gate_up_rows.h"
#include "worker/cuda/weights/uploader.h"
#include "worker/model/stored_rows.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// True for weights whose gates and ups alternate on the device.
bool Alternates(const PlannedWeight& planned) {
  using enum WeightPlace;
  const WeightPlace place = planned.place;
  const bool may_have_gates = place == kMlpIn || place == kExpertsIn || place == kExpertsInBias || place == kSharedIn;
  return may_have_gates && planned.parts.size() == 2;
}

/// Uploads one rank's weights.
class Loader {
 public:
  Loader(const ModelFiles& files, const RankShard& shard, Uploader& uploader)
      : files_(files), shard_(shard), uploader_(uploader) {}

  void Load(const std::vector<PlacedWeight>& weights) {
    VisitByExpert(weights, shard_.experts, [&](const PlacedWeight& weight, int64_t expert) {
      const int64_t before = IsOfExperts(weight.place) ? expert - shard_.experts.begin : 0;
      std::byte* const to = weight.data + before * weight.bytes;
      if (IsMatrix(weight.place) || IsTable(weight.place)) {
        LoadMatrix(weight, expert, to);
      } else {
        LoadVector(weight, expert, to);
      }
      transposed_.clear();
    });
  }

  /// Uploads numbers, padded with zeros up to `width`.
  void Numbers(void* to, const std::vector<float>& numbers, int64_t width) const {
    const auto count = static_cast<int64_t>(numbers.size());
    const Tensor row{NumberType::kF32, {count}, std::as_bytes(std::span(numbers))};
    if (count > 0) uploader_.Upload(to, {{&row, 0}}, {0, count}, width);
  }

 private:
  void LoadMatrix(const PlacedWeight& weight, int64_t expert, std::byte* to) {
    const std::vector<RowSource> rows = RowsOf(weight, expert);
    const std::vector<Range> pieces = Slice(weight.parts.front().role, weight.layer).pieces;
    if (weight.turned) {
      UploadTurned(to, rows, weight);
    } else if (weight.quantized) {
      uploader_.UploadQuantized(to, rows, weight.cols.range, *weight.quantized);
    } else if (pieces.empty()) {
      uploader_.Upload(to, rows, weight.cols.range, weight.width);
    } else {
      uploader_.UploadPieces(to, rows, pieces, weight.width);
    }
  }

  void LoadVector(const PlacedWeight& weight, int64_t expert, std::byte* to) {
    std::vector<float> numbers = ReadVector(files_, shard_, weight, weight.layer, expert);
    if (Alternates(weight)) {
      const auto ups = numbers.begin() + weight.parts.front().rows.size();
      numbers = Alternating<float>({numbers.begin(), ups}, {ups, numbers.end()}, weight.width / 2);
    }
    if (weight.is_float) {
      uploader_.UploadFloats(reinterpret_cast<float*>(to), numbers);
    } else {
      Numbers(to, numbers, weight.width);
    }
  }

  /// Uploads the heads' matrices, one below the other in `rows`, each with rows and columns exchanged.
  void UploadTurned(void* to, const std::vector<RowSource>& rows, const PlannedWeight& planned) {
    const int64_t rank = planned.cols.size(), dim = planned.rows() / planned.heads;
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
    uploader_.Upload(to, sources, {0, dim}, dim);
  }

  WeightSlice Slice(Role role, int64_t layer) const { return SliceOf(files_, shard_, role, layer); }

  /// Returns the tensor, transposed if necessary. A transposed copy lives until the weight is loaded.
  const Tensor& Stored(Role role, int64_t layer, int64_t expert) {
    const Tensor& tensor = files_.Get(role, layer, expert);
    if (tensor.scaled != nullptr) tensor.scaled->Check(files_.path());
    if (!files_.weight(role).transposed) return tensor;
    const auto [place, is_new] = transposed_.try_emplace(&tensor);
    if (is_new) place->second.tensor = Transposed(tensor, place->second.room);
    return place->second.tensor;
  }

  /// Returns the rows of a weight in their order on the device. Padding rows are zeros.
  std::vector<RowSource> RowsOf(const PlacedWeight& weight, int64_t expert) {
    std::vector<std::vector<RowSource>> parts;
    for (const PlannedPart& part : weight.parts) {
      const Tensor& tensor = Stored(part.role, weight.layer, expert);
      parts.emplace_back();
      for (const int64_t row : Slice(part.role, weight.layer).rows) parts.back().push_back({&tensor, row});
    }
    if (Alternates(weight)) return Alternating(parts[0], parts[1], weight.height / 2);
    std::vector<RowSource> rows;
    for (const std::vector<RowSource>& part : parts) rows.insert(rows.end(), part.begin(), part.end());
    rows.resize(static_cast<size_t>(weight.height));
    return rows;
  }

  struct TransposedTensor {
    Tensor tensor;
    std::vector<std::byte> room;
  };

  const ModelFiles& files_;
  const RankShard& shard_;
  std::map<const Tensor*, TransposedTensor> transposed_;  // keyed by the original tensor
  Uploader& uploader_;
};

}  // namespace

int64_t CudaWeights::Bytes(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                           const std::vector<LayerForms>& forms) {
  const CudaWeightLayout layout(spec, shard, dtype, forms, nullptr);
  return layout.bytes() + layout.expanded_bytes;
}

CudaWeights::CudaWeights(const ModelFiles& files, const RankShard& shard, NumberType dtype, Device& device, int threads,
                         const std::function<void(int64_t, int64_t)>& progress, const std::vector<LayerForms>& forms)
    : notes_(NotesOnExpanded(files, shard, forms)) {
  const ModelSpec& spec = files.spec();
  const CudaWeightLayout sizes(spec, shard, dtype, forms, nullptr);
  memory_ = device.Allocate(sizes.bytes(), "the model's weights");
  expanded_ = device.Allocate(sizes.expanded_bytes, "rows of quantised weights");
  const CudaWeightLayout layout(spec, shard, dtype, forms, memory_.as());
  CudaWeightPlaces::operator=(layout);

  Uploader uploader(device, dtype, threads, [&](int64_t done) { progress(done, memory_.bytes()); });
  Loader loader(files, shard, uploader);
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    loader.Load(layout.of_layer(i));
    if (spec.layer_scales)
      layers[static_cast<size_t>(i)].scale = ReadVector(files, shard, Role::kLayerScale, i).front();
  }
  loader.Load(layout.outside_layers());
  const int64_t ones = LargestHead(spec);
  if (spec.value_norm) loader.Numbers(value_norm, std::vector<float>(static_cast<size_t>(ones), 1), ones);
}

}  // namespace quire
