#include "worker/cpu/sliced_passes.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

KeptRows& SlicedPasses::RowsOf(const Slice& slice) {
  if (slice.begin > 0) return kept_.at(slice.slot);
  const int64_t most = MostKeptRows(sizes_.max_model_len);
  int64_t rows = slice.tokens;
  for (const auto& [slot, kept] : kept_) rows += kept.tokens();
  if (rows > most) Fail("slot {}: {} rows of texts in slices, at most {}", slice.slot, rows, most);
  return kept_.insert_or_assign(slice.slot, KeptRows(spec_, shard_, slice.tokens)).first->second;
}

void SlicedPasses::Compute(const Slice& slice, const SequenceTable& table, const KvCache& cache, CpuDecoder& decoder) {
  KeptRows& kept = RowsOf(slice);
  for (int64_t unit = slice.begin; unit < slice.end();) {
    const int64_t row = unit % slice.tokens;
    const int64_t count = std::min({slice.tokens - row, slice.end() - unit, int64_t{sizes_.max_step_tokens}});
    inputs_.BuildSlice(table, slice.slot, static_cast<int>(row), static_cast<int>(count), sizes_.block_size);
    decoder.ForwardSlice(inputs_, cache, unit / slice.tokens, kept);
    unit += count;
  }
}

void SlicedPasses::Release(const std::vector<SlotId>& slots) {
  for (const SlotId slot : slots) kept_.erase(slot);
}

}  // namespace quire
