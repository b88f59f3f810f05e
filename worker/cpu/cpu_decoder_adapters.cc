// CpuDecoder's additions to products, for tokens with LoRA adapters.
#include <algorithm>

#include "worker/cpu/cpu_decoder.h"

namespace quire {

void CpuDecoder::AddAdapters(LayerProduct product, int64_t layer, const float* x, int64_t x_stride, Rows rows, float* y,
                             int64_t y_stride) {
  if (inputs_->adapters.empty()) return;
  const auto adapter_of = inputs_->adapters.begin() + rows.first;
  // Orders the rows by adapter. Rows of the base model come first and are left out.
  adapter_rows_.resize(static_cast<size_t>(rows.count));
  for (size_t i = 0; i < adapter_rows_.size(); ++i) adapter_rows_[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(adapter_rows_, {}, [&](int32_t row) { return adapter_of[row]; });
  adapter_groups_.clear();
  for (size_t begin = 0; begin < adapter_rows_.size();) {
    const int adapter = adapter_of[adapter_rows_[begin]];
    size_t end = begin;
    while (end < adapter_rows_.size() && adapter_of[adapter_rows_[end]] == adapter) ++end;
    if (adapter > 0) {
      const std::vector<kernels::LowRankPart>& parts = adapters_.at(adapter).Parts(layer, product);
      if (!parts.empty())
        adapter_groups_.push_back({parts.data(), static_cast<int64_t>(parts.size()), &adapter_rows_[begin],
                                   static_cast<int64_t>(end - begin)});
    }
    begin = end;
  }
  if (adapter_groups_.empty()) return;
  kernels::AddLowRank(stream_,
                      {x, x_stride, y, y_stride, adapter_groups_.data(), static_cast<int64_t>(adapter_groups_.size())});
}

}  // namespace quire
