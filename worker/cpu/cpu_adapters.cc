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

/// The columns of a slice in the rank's order.
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

CpuAdapters::CpuAdapters(const ModelFiles& files, const RankShard& shard, bool reads) : reads_(reads) {
  for (const AdapterFiles& adapter : files.adapters()) {
    auto& products = parts_.emplace_back(static_cast<size_t>(files.spec().num_layers()) * kNumLayerProducts);
    for (const AdapterMatrix& matrix : adapter.matrices()) {
      if (shard.stage.Contains(matrix.layer)) Load(files, shard, matrix, products);
    }
  }
}

void CpuAdapters::Load(const ModelFiles& files, const RankShard& shard, const AdapterMatrix& matrix,
                       std::vector<std::vector<kernels::LowRankPart>>& products) {
  const LayerProduct product = ProductOf(matrix.roles.front());
  auto& parts = products[static_cast<size_t>(matrix.layer) * kNumLayerProducts + static_cast<size_t>(product)];
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

kernels::PackedWeight CpuAdapters::Pack(const Tensor& tensor, const std::vector<int64_t>& rows,
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

}  // namespace quire
