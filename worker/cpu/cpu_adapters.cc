#include "worker/cpu/cpu_adapters.h"

#include <algorithm>
#include <numeric>

#include "comm/base/error.h"
#include "comm/model/adapter_bases.h"
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

AdaptedProduct ProductOf(Role role) {
  if (IsOfShortConvolution(role)) return role == Role::kConvOut ? AdaptedProduct::kMixerOut : AdaptedProduct::kMixerIn;
  if (IsOfStateHeads(role)) return role == Role::kStateOut ? AdaptedProduct::kMixerOut : AdaptedProduct::kMixerIn;
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kAttentionGate:
      return AdaptedProduct::kQkv;
    case Role::kAttentionOut:
      return AdaptedProduct::kAttentionOut;
    case Role::kGate:
    case Role::kUp:
      return AdaptedProduct::kMlpIn;
    case Role::kDown:
      return AdaptedProduct::kDown;
    case Role::kRouter:
    case Role::kSharedScale:
      return AdaptedProduct::kRouter;
    case Role::kSharedGate:
    case Role::kSharedUp:
      return AdaptedProduct::kSharedIn;
    case Role::kSharedDown:
      return AdaptedProduct::kSharedDown;
    case Role::kExpertGate:
    case Role::kExpertUp:
      return AdaptedProduct::kExpertIn;
    case Role::kExpertDown:
      return AdaptedProduct::kExpertDown;
    case Role::kLayerInputGate:
      return AdaptedProduct::kInputGate;
    case Role::kLayerInputOut:
      return AdaptedProduct::kInputOut;
    case Role::kLayerProjection:
      return AdaptedProduct::kInputProjection;
    case Role::kHead:
      return AdaptedProduct::kHead;
    default:
      Fail("adapters change no weight {}", static_cast<int>(role));
  }
}

/// True when the rank computes the product.
bool HasProduct(const RankShard& shard, int64_t layer, AdaptedProduct product) {
  if (product == AdaptedProduct::kHead) return shard.is_last();
  return product == AdaptedProduct::kInputProjection || shard.stage.Contains(layer);
}

}  // namespace

std::vector<Role> RolesOf(const ModelFiles& files, int64_t layer, AdaptedProduct product) {
  if (product == AdaptedProduct::kHead) return {Role::kHead};
  std::vector<Role> roles;
  for (const Role role : kAdapterRoles) {
    if (ProductOf(role) == product && files.Has(role, layer)) roles.push_back(role);
  }
  return roles;
}

CpuAdapter::CpuAdapter(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard, bool reads)
    : storage_(reads),
      layers_(base.spec().num_layers()),
      parts_(static_cast<size_t>(layers_) * kNumAdaptedProducts),
      tables_(base, adapter, shard, storage_) {
  for (const AdapterMatrix& matrix : adapter.matrices()) Load(base, adapter.layout(), shard, matrix);
}

const CpuAdapter::Parts& CpuAdapter::PartsOf(int64_t layer, AdaptedProduct product, int64_t expert) const {
  static const Parts kNone;
  const auto& parts = parts_[static_cast<size_t>(layer) * kNumAdaptedProducts + static_cast<size_t>(product)];
  return parts.empty() ? kNone : parts[static_cast<size_t>(expert)];
}

void CpuAdapter::Load(const ModelFiles& files, const ModelSpec& layout, const RankShard& shard,
                      const AdapterMatrix& matrix) {
  const AdaptedProduct product = ProductOf(matrix.weights.front().role);
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
  auto& of_product = parts_[static_cast<size_t>(matrix.layer) * kNumAdaptedProducts + static_cast<size_t>(product)];
  if (of_product.empty()) of_product.resize(is_experts ? static_cast<size_t>(shard.experts.size()) : 1);
  Parts& parts = of_product[is_experts ? static_cast<size_t>(matrix.expert - shard.experts.begin) : 0];
  int64_t column = 0;
  for (const Role role : RolesOf(files, matrix.layer, product)) {
    const auto weight = std::ranges::find(matrix.weights, role, &AdaptedWeight::role);
    if (weight != matrix.weights.end()) {
      const std::vector<int64_t> rows = slice_of(*weight).rows;
      if (!rows.empty())
        parts.push_back({down, storage_.Pack(matrix.b, rows, columns_of_b), column, matrix.scale});
    }
    column += static_cast<int64_t>(SliceOf(files, shard, role, matrix.layer).rows.size());
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
