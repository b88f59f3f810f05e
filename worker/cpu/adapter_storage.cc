#include "worker/cpu/adapter_storage.h"

#include <cstring>

#include "worker/model/weight_slice.h"

namespace quire {

std::byte* AdapterStorage::Take(int64_t bytes) {
  bytes_ += bytes;
  if (!reads_ || bytes == 0) return nullptr;
  storage_.emplace_back(static_cast<size_t>(bytes));
  return storage_.back().data();
}

kernels::PackedWeight AdapterStorage::Pack(const Tensor& tensor, const std::vector<int64_t>& rows,
                                           const std::vector<int64_t>& cols) {
  const auto num_rows = static_cast<int64_t>(rows.size()), num_cols = static_cast<int64_t>(cols.size());
  // Columns in bf16 are padded to whole blocks. If the adapter's LoRA rank is small, the padded matrix may take as much
  // memory as the matrix in fp32.
  const bool pays = kernels::PanelBytes(tensor.type, num_cols) < kernels::PanelBytes(NumberType::kF32, num_cols);
  const NumberType type = pays ? tensor.type : NumberType::kF32;
  std::byte* to = Take(kernels::PackedBytes(type, num_rows, num_cols));
  const kernels::PackedWeight packed{type, to, num_rows, num_cols};
  if (to == nullptr) return packed;
  const kernels::Weight stored = AsWeight(tensor);
  const auto number = static_cast<size_t>(kernels::RowBytes(type, 1));
  std::vector<float> whole(static_cast<size_t>(tensor.cols()));
  std::vector<std::byte> made(kernels::kPanelRows * cols.size() * number);
  for (size_t first = 0; first < rows.size(); first += kernels::kPanelRows) {
    const std::byte* panel[kernels::kPanelRows] = {};
    for (size_t i = 0; i < kernels::kPanelRows && first + i < rows.size(); ++i) {
      const std::byte* from = stored.data + rows[first + i] * stored.row_bytes;
      if (type != tensor.type) {
        kernels::DecodeRow(stored, rows[first + i], 0, tensor.cols(), whole.data());
        from = reinterpret_cast<const std::byte*>(whole.data());
      }
      std::byte* const row = made.data() + i * cols.size() * number;
      for (size_t c = 0; c < cols.size(); ++c)
        std::memcpy(row + c * number, from + static_cast<size_t>(cols[c]) * number, number);
      panel[i] = row;
    }
    kernels::PackPanel(type, num_cols, panel, to);
    to += kernels::PanelBytes(type, num_cols);
  }
  return packed;
}

kernels::PackedWeight AdapterStorage::PackRows(const Tensor& tensor, const std::vector<int64_t>& rows) {
  const auto num_rows = static_cast<int64_t>(rows.size());
  std::byte* to = Take(kernels::PackedBytes(tensor.type, num_rows, tensor.cols()));
  const kernels::PackedWeight packed{tensor.type, to, num_rows, tensor.cols()};
  if (to == nullptr) return packed;
  const int64_t row_bytes = kernels::RowBytes(tensor.type, tensor.cols());
  for (size_t first = 0; first < rows.size(); first += kernels::kPanelRows) {
    const std::byte* panel[kernels::kPanelRows] = {};
    for (size_t i = 0; i < kernels::kPanelRows && first + i < rows.size(); ++i)
      panel[i] = tensor.data.data() + rows[first + i] * row_bytes;
    kernels::PackPanel(tensor.type, tensor.cols(), panel, to);
    to += kernels::PanelBytes(tensor.type, tensor.cols());
  }
  return packed;
}

kernels::Weight AdapterStorage::Copy(const Tensor& tensor) {
  const int64_t row_bytes = kernels::RowBytes(tensor.type, tensor.cols());
  std::byte* to = Take(tensor.rows() * row_bytes);
  if (to != nullptr) std::memcpy(to, tensor.data.data(), tensor.data.size());
  return {tensor.type, to, tensor.rows(), tensor.cols(), row_bytes};
}

}  // namespace quire
