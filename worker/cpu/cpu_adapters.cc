#include "worker/cpu/cpu_adapters.h"

#include <algorithm>
#include <numeric>

#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// Returns the slice's columns in the order in which the rank stores them.
std::vector<int64_t> ColumnsOf(const WeightSlice& slice) {
  std::vector<int64_t> columns;
  const std::vector<Range> whole = {slice.cols};
  for (const Range& piece : slice.pieces.empty() ? whole : slice.pieces) {
    for (int64_t column = piece.begin; column < piece.end; ++column) columns.push_back(column);
  }
  return columns;
}

/// True when the rank computes the product of this place.
bool HasProduct(const RankShard& shard, int64_t layer, WeightPlace place) {
  if (place == WeightPlace::kHead) return shard.is_last();
  return place == WeightPlace::kInputProjection || shard.stage.Contains(layer);
}

/// Returns what the rank has in a place of the base model.
std::vector<PlannedPart> PlannedPartsOf(const ModelSpec& spec, const RankShard& shard, int64_t layer,
                                        WeightPlace place) {
  const bool is_outside = place == WeightPlace::kHead || place == WeightPlace::kInputProjection;
  const std::vector<PlannedWeight> plan = is_outside ? PlanOutsideLayers(spec, shard) : PlanLayer(spec, shard, layer);
  const auto planned = std::ranges::find(plan, place, &PlannedWeight::place);
  return planned == plan.end() ? std::vector<PlannedPart>() : planned->parts;
}

}  // namespace

CpuAdapter::CpuAdapter(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard, bool reads)
    : storage_(reads),
      layers_(base.spec().num_layers()),
      parts_(static_cast<size_t>(layers_) * kNumMatrixPlaces),
      tables_(base, adapter, shard, storage_) {
  for (const AdapterMatrix& matrix : adapter.matrices()) Load(base, adapter.layout(), shard, matrix);
}

const CpuAdapter::Parts& CpuAdapter::PartsOf(int64_t layer, WeightPlace product, int64_t expert) const {
  static const Parts kNone;
  const auto& parts = parts_[static_cast<size_t>(layer) * kNumMatrixPlaces + static_cast<size_t>(product)];
  return parts.empty() ? kNone : parts[static_cast<size_t>(expert)];
}

void CpuAdapter::Load(const ModelFiles& files, const ModelSpec& layout, const RankShard& shard,
                      const AdapterMatrix& matrix) {
  const WeightPlace product = PlaceOf(matrix.weights.front().role);
  const bool is_experts = matrix.expert != kAllExperts;
  if (!HasProduct(shard, matrix.layer, product) || (is_experts && !shard.experts.Contains(matrix.expert))) return;
  const auto slice_of = [&](const AdaptedWeight& weight) {
    return SliceOf(layout, files.weight(weight.role), weight.rows, shard, matrix.layer);
  };
  // All weights of an AdapterMatrix share x, and therefore the first of the adapter's two factors.
  std::vector<int64_t> ranks(static_cast<size_t>(matrix.rank())), columns_of_b = ranks;
  std::iota(ranks.begin(), ranks.end(), 0);
  for (size_t i = 0; i < ranks.size(); ++i) columns_of_b[i] = matrix.b_first + ranks[i] * matrix.b_step;
  const std::vector<int64_t> columns = ColumnsOf(slice_of(matrix.weights.front()));
  if (columns.empty()) return;
  const kernels::PackedWeight down = storage_.Pack(matrix.a, ranks, columns);
  auto& of_product = parts_[static_cast<size_t>(matrix.layer) * kNumMatrixPlaces + static_cast<size_t>(product)];
  if (of_product.empty()) of_product.resize(is_experts ? static_cast<size_t>(shard.experts.size()) : 1);
  Parts& parts = of_product[is_experts ? static_cast<size_t>(matrix.expert - shard.experts.begin) : 0];
  int64_t column = 0;
  for (const PlannedPart& part : PlannedPartsOf(files.spec(), shard, matrix.layer, product)) {
    const auto weight = std::ranges::find(matrix.weights, part.role, &AdaptedWeight::role);
    if (weight != matrix.weights.end()) {
      const std::vector<int64_t> rows = slice_of(*weight).rows;
      if (!rows.empty()) parts.push_back({down, storage_.Pack(matrix.b, rows, columns_of_b), column, matrix.scale});
    }
    column += part.rows.size();
  }
}

CpuAdapters::CpuAdapters(const ModelFiles& files, const RankShard& shard)
    : num_listed_(static_cast<int>(files.adapters().size())) {
  for (int i = 0; i < num_listed_; ++i)
    adapters_[i + 1] = std::make_shared<CpuAdapter>(files, files.adapters()[static_cast<size_t>(i)], shard);
}

int64_t CpuAdapters::Bytes(const ModelFiles& files, const RankShard& shard) {
  int64_t bytes = 0;
  for (const AdapterFiles& adapter : files.adapters()) bytes += CpuAdapter(files, adapter, shard, false).bytes();
  return bytes;
}

int64_t CpuAdapters::bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, adapter] : adapters_) bytes += adapter->bytes();
  return bytes;
}

void CpuAdapters::Set(int number, std::shared_ptr<const CpuAdapter> adapter) {
  if (adapter == nullptr) {
    adapters_.erase(number);
  } else {
    adapters_[number] = std::move(adapter);
  }
}

}  // namespace quire
