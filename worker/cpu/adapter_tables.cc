#include "worker/cpu/adapter_tables.h"

#include <algorithm>

#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// Copies a matrix in fp32, multiplied by `scale`. With `turned` the copy is transposed.
const float* CopyNumbers(const Tensor& tensor, bool turned, float scale, AdapterStorage& storage) {
  const int64_t rows = tensor.rows(), cols = tensor.cols();
  auto* to = reinterpret_cast<float*>(storage.Take(rows * cols * static_cast<int64_t>(sizeof(float))));
  if (to == nullptr) return nullptr;
  const kernels::Weight stored = AsWeight(tensor);
  std::vector<float> numbers(static_cast<size_t>(cols));
  for (int64_t row = 0; row < rows; ++row) {
    kernels::DecodeRow(stored, row, 0, cols, numbers.data());
    for (int64_t col = 0; col < cols; ++col)
      to[turned ? col * rows + row : row * cols + col] = numbers[static_cast<size_t>(col)] * scale;
  }
  return to;
}

}  // namespace

AdapterTables::AdapterTables(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard,
                             AdapterStorage& storage)
    : hidden_(base.spec().hidden_size) {
  // In models with layer inputs, every stage computes these inputs from the embeddings.
  if (shard.is_first() || base.spec().layer_input_size > 0) LoadEmbedding(adapter.embedding(), storage);
  if (shard.is_last()) LoadHead(adapter.head(), shard.vocab, storage);
}

void AdapterTables::LoadEmbedding(const AdapterTable& table, AdapterStorage& storage) {
  if (!table.whole.shape.empty()) embedding_ = storage.Copy(table.whole);
  if (!table.rows.shape.empty()) row_table_ = storage.Copy(table.rows);
  for (size_t i = 0; i < table.tokens.size(); ++i) rows_[table.tokens[i]] = static_cast<int64_t>(i);
  if (table.a.shape.empty()) return;
  rank_ = table.b.cols();
  a_ = CopyNumbers(table.a, !table.a_by_token, 1, storage);
  b_ = CopyNumbers(table.b, true, table.scale, storage);
}

void AdapterTables::LoadHead(const AdapterTable& table, const Range& vocab, AdapterStorage& storage) {
  if (!table.whole.shape.empty()) {
    std::vector<int64_t> rows;
    for (int64_t row = vocab.begin; row < vocab.end; ++row) rows.push_back(row);
    head_ = storage.PackRows(table.whole, rows);
  }
  std::vector<int64_t> rows;
  for (size_t i = 0; i < table.tokens.size(); ++i) {
    if (!vocab.Contains(table.tokens[i])) continue;
    rows.push_back(static_cast<int64_t>(i));
    head_columns_.push_back(table.tokens[i] - vocab.begin);
  }
  if (!rows.empty()) head_rows_ = storage.PackRows(table.rows, rows);
}

void AdapterTables::Embed(TokenId token, float scale, float* row) const {
  const auto own = rows_.find(token);
  if (own != rows_.end() || embedding_.data != nullptr) {
    if (own != rows_.end()) {
      kernels::DecodeRow(row_table_, own->second, 0, hidden_, row);
    } else {
      kernels::DecodeRow(embedding_, token, 0, hidden_, row);
    }
    for (int64_t c = 0; c < hidden_; ++c) row[c] *= scale;
  }
  for (int64_t j = 0; j < rank_; ++j) {
    const float factor = a_[token * rank_ + j] * scale;
    const float* from = b_ + j * hidden_;
    for (int64_t c = 0; c < hidden_; ++c) row[c] += factor * from[c];
  }
}

}  // namespace quire
