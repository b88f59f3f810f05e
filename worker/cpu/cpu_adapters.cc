#include "worker/cpu/cpu_adapters.h"

#include <algorithm>
#include <numeric>

#include "comm/base/error.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

std::vector<int64_t> All(int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

/// Returns the columns of a slice in the rank's order.
std::vector<int64_t> ColumnsOf(const WeightSlice& slice) {
  std::vector<int64_t> columns;
  const std::vector<Range> whole = {slice.cols};
  for (const Range& piece : slice.pieces.empty() ? whole : slice.pieces) {
    for (int64_t column = piece.begin; column < piece.end; ++column) columns.push_back(column);
  }
  return columns;
}

LayerProduct ProductOf(Role role) {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kAttentionGate:
      return LayerProduct::kQkv;
    case Role::kAttentionOut:
      return LayerProduct::kAttentionOut;
    case Role::kGate:
    case Role::kUp:
      return LayerProduct::kMlpIn;
    case Role::kDown:
      return LayerProduct::kDown;
    default:
      Fail("adapters change no weight {}", static_cast<int>(role));
  }
}

}  // namespace

std::vector<Role> RolesOf(const ModelFiles& files, int64_t layer, LayerProduct product) {
  std::vector<Role> roles;
  for (const Role role : kAdapterRoles) {
    if (ProductOf(role) == product && files.Has(role, layer)) roles.push_back(role);
  }
  return roles;
}

CpuAdapter::CpuAdapter(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard, bool reads)
    : reads_(reads), parts_(static_cast<size_t>(base.spec().num_layers()) * kNumLayerProducts) {
  for (const AdapterMatrix& matrix : adapter.matrices()) {
    if (shard.stage.Contains(matrix.layer)) Load(base, shard, matrix);
  }
}

void CpuAdapter::Load(const ModelFiles& files, const RankShard& shard, const AdapterMatrix& matrix) {
  const LayerProduct product = ProductOf(matrix.roles.front());
  auto& parts = parts_[static_cast<size_t>(matrix.layer) * kNumLayerProducts + static_cast<size_t>(product)];
  // Roles of one matrix share x, and so the first of its two factors.
  const std::vector<int64_t> ranks = All(matrix.rank());
  const std::vector<int64_t> columns = ColumnsOf(SliceOf(files, shard, matrix.roles.front(), matrix.layer));
  if (columns.empty()) return;
  const kernels::PackedWeight down = Pack(matrix.a, ranks, columns, 1);
  int64_t column = 0;
  for (const Role role : RolesOf(files, matrix.layer, product)) {
    const WeightSlice slice = SliceOf(files, shard, role, matrix.layer);
    if (std::ranges::count(matrix.roles, role) > 0 && !slice.rows.empty())
      parts.push_back({down, Pack(matrix.b, slice.rows, ranks, matrix.scale), column});
    column += static_cast<int64_t>(slice.rows.size());
  }
}

kernels::PackedWeight CpuAdapter::Pack(const Tensor& tensor, const std::vector<int64_t>& rows,
                                       const std::vector<int64_t>& cols, float scale) {
  const auto num_rows = static_cast<int64_t>(rows.size()), num_cols = static_cast<int64_t>(cols.size());
  const int64_t bytes = kernels::PackedBytes(NumberType::kF32, num_rows, num_cols);
  kernels::PackedWeight packed{NumberType::kF32, nullptr, num_rows, num_cols};
  bytes_ += bytes;
  if (!reads_) return packed;
  storage_.emplace_back(static_cast<size_t>(bytes));
  std::byte* to = storage_.back().data();
  packed.data = to;
  const kernels::Weight stored = AsWeight(tensor);
  std::vector<float> whole(static_cast<size_t>(tensor.cols())), made(kernels::kPanelRows * cols.size());
  for (size_t first = 0; first < rows.size(); first += kernels::kPanelRows) {
    const std::byte* panel[kernels::kPanelRows] = {};
    for (size_t i = 0; i < kernels::kPanelRows && first + i < rows.size(); ++i) {
      kernels::DecodeRow(stored, rows[first + i], 0, tensor.cols(), whole.data());
      float* row = made.data() + i * cols.size();
      for (size_t c = 0; c < cols.size(); ++c) row[c] = whole[static_cast<size_t>(cols[c])] * scale;
      panel[i] = reinterpret_cast<const std::byte*>(row);
    }
    kernels::PackPanel(NumberType::kF32, num_cols, panel, to);
    to += kernels::PanelBytes(NumberType::kF32, num_cols);
  }
  return packed;
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
