// CpuDecoder's functions for tokens with LoRA adapters.
#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "worker/cpu/cpu_decoder.h"

namespace quire {

namespace {

/// Orders `rows` by adapter, and appends a group for each adapter that changes the product. Rows of the base model
/// (adapter 0) come first and get no group. adapter_of(row) returns a row's adapter, and parts_of(adapter) returns the
/// adapter's parts. `x_rows`: for each ordered row, its row of x; null: the row itself.
template <class AdapterOf, class PartsOf>
void AppendGroups(std::span<int32_t> rows, const AdapterOf& adapter_of, const PartsOf& parts_of, const int32_t* x_rows,
                  std::vector<kernels::LowRankGroup>& groups) {
  std::ranges::stable_sort(rows, {}, adapter_of);
  for (size_t begin = 0; begin < rows.size();) {
    const int adapter = adapter_of(rows[begin]);
    size_t end = begin;
    while (end < rows.size() && adapter_of(rows[end]) == adapter) ++end;
    const CpuAdapter::Parts* const parts = adapter > 0 ? parts_of(adapter) : nullptr;
    if (parts != nullptr && !parts->empty()) {
      groups.push_back({parts->data(), std::ssize(*parts), &rows[begin], static_cast<int64_t>(end - begin),
                        x_rows == nullptr ? nullptr : x_rows + begin});
    }
    begin = end;
  }
}

}  // namespace

std::span<const int32_t> CpuDecoder::AdaptersOf(Rows rows) const {
  if (inputs_->adapters.empty()) return {};
  return std::span(inputs_->adapters).subspan(static_cast<size_t>(rows.first), static_cast<size_t>(rows.count));
}

void CpuDecoder::AddAdapters(WeightPlace product, int64_t layer, const float* x, int64_t x_stride,
                             std::span<const int32_t> adapters, float* y, int64_t y_stride) {
  if (adapters.empty()) return;
  adapter_rows_.resize(adapters.size());
  std::iota(adapter_rows_.begin(), adapter_rows_.end(), 0);
  adapter_groups_.clear();
  const auto adapter_of = [&](int32_t row) { return adapters[static_cast<size_t>(row)]; };
  const auto parts_of = [&](int adapter) { return &adapters_.at(adapter).PartsOf(layer, product); };
  AppendGroups(adapter_rows_, adapter_of, parts_of, nullptr, adapter_groups_);
  if (adapter_groups_.empty()) return;
  kernels::AddLowRank(stream_, {x, x_stride, y, y_stride, adapter_groups_.data(), std::ssize(adapter_groups_)});
}

void CpuDecoder::AddExpertAdapters(WeightPlace product, int64_t layer, const float* x, int64_t x_stride, bool of_tokens,
                                   float* y, int64_t y_stride) {
  if (inputs_->adapters.empty()) return;
  const ExpertActivations& a = experts_;
  const auto token_of = [&](int32_t row) {
    return a.pair_of_row[static_cast<size_t>(row)] / static_cast<int32_t>(spec_.mixture.experts_per_token);
  };
  const auto adapter_of = [&](int32_t row) { return inputs_->adapters[static_cast<size_t>(token_of(row))]; };
  const auto rows = static_cast<size_t>(a.start.back());
  adapter_rows_.resize(rows);
  std::iota(adapter_rows_.begin(), adapter_rows_.end(), 0);
  adapter_x_rows_.resize(of_tokens ? rows : 0);
  adapter_groups_.clear();
  for (size_t expert = 0; expert + 1 < a.start.size(); ++expert) {
    const auto first = static_cast<size_t>(a.start[expert]), last = static_cast<size_t>(a.start[expert + 1]);
    const auto parts_of = [&](int adapter) {
      return &adapters_.at(adapter).PartsOf(layer, product, static_cast<int64_t>(expert));
    };
    AppendGroups(std::span(adapter_rows_).subspan(first, last - first), adapter_of, parts_of,
                 of_tokens ? adapter_x_rows_.data() + first : nullptr, adapter_groups_);
  }
  for (size_t i = 0; i < adapter_x_rows_.size(); ++i) adapter_x_rows_[i] = token_of(adapter_rows_[i]);
  if (adapter_groups_.empty()) return;
  kernels::AddLowRank(stream_, {x, x_stride, y, y_stride, adapter_groups_.data(), std::ssize(adapter_groups_)});
}

void CpuDecoder::EmbedAdapters() {
  const std::span<const int32_t> adapters = AdaptersOf({0, tokens_});
  if (adapters.empty()) return;
  stream_.pool().ForRange(tokens_, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const auto row = static_cast<size_t>(i);
      if (adapters[row] == 0) continue;
      const AdapterTables& tables = adapters_.at(adapters[row]).tables();
      if (tables.changes_embedding())
        tables.Embed(inputs_->token_ids[row], static_cast<float>(spec_.embedding_scale),
                     buffers_.residual.data() + i * spec_.hidden_size);
    }
  });
}

void CpuDecoder::ReplaceLogits(const float* rows, std::span<const int32_t> adapters) {
  const auto vocab = static_cast<size_t>(shard_.vocab.size()), hidden = static_cast<size_t>(spec_.hidden_size);
  std::vector<size_t> mine;
  std::vector<float> x, y;
  for (size_t first = 0; first < adapters.size(); ++first) {
    const auto before = adapters.first(first);
    if (adapters[first] == 0 || std::ranges::find(before, adapters[first]) != before.end()) continue;
    const AdapterTables& tables = adapters_.at(adapters[first]).tables();
    if (tables.head().data == nullptr && tables.head_columns().empty()) continue;
    mine.clear();
    x.clear();
    for (size_t row = first; row < adapters.size(); ++row) {
      if (adapters[row] != adapters[first]) continue;
      mine.push_back(row);
      x.insert(x.end(), rows + row * hidden, rows + (row + 1) * hidden);
    }
    const auto multiply = [&](const kernels::PackedWeight& weight) {
      y.resize(mine.size() * static_cast<size_t>(weight.rows));
      Matmul(x.data(), {weight}, y.data(), weight.rows, std::ssize(mine), kernels::Activations::kInt16);
    };
    if (tables.head().data != nullptr) {
      multiply(tables.head());
      for (size_t i = 0; i < mine.size(); ++i) std::copy_n(&y[i * vocab], vocab, &logits_[mine[i] * vocab]);
    }
    const std::vector<int64_t>& columns = tables.head_columns();
    if (columns.empty()) continue;
    multiply(tables.head_rows());
    for (size_t i = 0; i < mine.size(); ++i) {
      for (size_t c = 0; c < columns.size(); ++c)
        logits_[mine[i] * vocab + static_cast<size_t>(columns[c])] = y[i * columns.size() + c];
    }
  }
}

}  // namespace quire
