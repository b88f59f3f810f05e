// CpuDecoder's changes for tokens with LoRA adapters.
#include <algorithm>

#include "kernels/cpu/thread_pool.h"
#include "worker/cpu/cpu_decoder.h"

namespace quire {

std::span<const int32_t> CpuDecoder::AdaptersOf(Rows rows) const {
  if (inputs_->adapters.empty()) return {};
  return std::span(inputs_->adapters).subspan(static_cast<size_t>(rows.first), static_cast<size_t>(rows.count));
}

void CpuDecoder::AddAdapters(AdaptedProduct product, int64_t layer, const float* x, int64_t x_stride,
                             std::span<const int32_t> adapters, float* y, int64_t y_stride) {
  if (adapters.empty()) return;
  // Orders the rows by adapter. Rows of the base model come first and are left out.
  adapter_rows_.resize(adapters.size());
  for (size_t i = 0; i < adapter_rows_.size(); ++i) adapter_rows_[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(adapter_rows_, {}, [&](int32_t row) { return adapters[static_cast<size_t>(row)]; });
  adapter_groups_.clear();
  for (size_t begin = 0; begin < adapter_rows_.size();) {
    const int adapter = adapters[static_cast<size_t>(adapter_rows_[begin])];
    size_t end = begin;
    while (end < adapter_rows_.size() && adapters[static_cast<size_t>(adapter_rows_[end])] == adapter) ++end;
    if (adapter > 0) {
      const CpuAdapter::Parts& parts = adapters_.at(adapter).PartsOf(layer, product);
      if (!parts.empty())
        adapter_groups_.push_back({parts.data(), std::ssize(parts), &adapter_rows_[begin],
                                   static_cast<int64_t>(end - begin)});
    }
    begin = end;
  }
  if (adapter_groups_.empty()) return;
  kernels::AddLowRank(stream_, {x, x_stride, y, y_stride, adapter_groups_.data(), std::ssize(adapter_groups_)});
}

void CpuDecoder::AddExpertAdapters(AdaptedProduct product, int64_t layer, const float* x, int64_t x_stride,
                                   bool of_tokens, float* y, int64_t y_stride) {
  if (inputs_->adapters.empty()) return;
  const ExpertActivations& a = experts_;
  const auto token_of = [&](int32_t row) {
    return a.pair_of_row[static_cast<size_t>(row)] / static_cast<int32_t>(spec_.mixture.experts_per_token);
  };
  const auto adapter_of = [&](int32_t row) { return inputs_->adapters[static_cast<size_t>(token_of(row))]; };
  const auto rows = static_cast<size_t>(a.start.back());
  adapter_rows_.resize(rows);
  for (size_t i = 0; i < rows; ++i) adapter_rows_[i] = static_cast<int32_t>(i);
  for (size_t expert = 0; expert + 1 < a.start.size(); ++expert)
    std::stable_sort(adapter_rows_.begin() + a.start[expert], adapter_rows_.begin() + a.start[expert + 1],
                     [&](int32_t one, int32_t other) { return adapter_of(one) < adapter_of(other); });
  adapter_x_rows_.resize(of_tokens ? rows : 0);
  for (size_t i = 0; i < adapter_x_rows_.size(); ++i) adapter_x_rows_[i] = token_of(adapter_rows_[i]);
  adapter_groups_.clear();
  for (size_t expert = 0; expert + 1 < a.start.size(); ++expert) {
    const auto last = static_cast<size_t>(a.start[expert + 1]);
    for (auto begin = static_cast<size_t>(a.start[expert]); begin < last;) {
      const int adapter = adapter_of(adapter_rows_[begin]);
      size_t end = begin;
      while (end < last && adapter_of(adapter_rows_[end]) == adapter) ++end;
      const CpuAdapter* const mine = adapter > 0 ? &adapters_.at(adapter) : nullptr;
      if (mine != nullptr && !mine->PartsOf(layer, product, static_cast<int64_t>(expert)).empty()) {
        const CpuAdapter::Parts& parts = mine->PartsOf(layer, product, static_cast<int64_t>(expert));
        adapter_groups_.push_back({parts.data(), std::ssize(parts), &adapter_rows_[begin],
                                   static_cast<int64_t>(end - begin),
                                   of_tokens ? &adapter_x_rows_[begin] : nullptr});
      }
      begin = end;
    }
  }
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
