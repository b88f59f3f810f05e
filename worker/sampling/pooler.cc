#include "worker/sampling/pooler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "comm/base/error.h"

namespace quire {

ScoredRows RowsToPool(Pooling pooling, int num_prompt_tokens, int start, int count) {
  int first = 0, end = num_prompt_tokens;
  if (pooling == Pooling::kNone) end = 0;
  if (pooling == Pooling::kLast) first = num_prompt_tokens - 1;
  if (pooling == Pooling::kCls) end = 1;
  first = std::max(first, start);
  return {first, std::max(0, std::min(end, start + count) - first)};
}

std::vector<SampledToken> WithoutDraws(const std::vector<BatchMember>& batch) {
  std::vector<SampledToken> tokens;
  for (const BatchMember& member : batch) {
    for (int row = 0; row < member.num_rows(); ++row) tokens.push_back({member.slot, 0, 0, {}});
  }
  return tokens;
}

bool PoolsRows(const BatchMember& member, const SequenceState& sequence) {
  return RowsToPool(sequence.sampling.pooling, sequence.num_prompt_tokens, member.start, member.count).count > 0;
}

void Pooler::Add(const RowsAt& rows_at, Pooling pooling, int64_t row, int64_t count, Sum& sum) const {
  const bool each = PoolsEachToken(pooling);
  if (!each) sum.values.resize(hidden_);
  for (int64_t begin = 0; begin < count; begin += kPooledAtOnce) {
    const int64_t some = std::min<int64_t>(kPooledAtOnce, count - begin);
    const std::span<const float> rows = rows_at(pooling, row + begin, some);
    if (each) {
      sum.rows.insert(sum.rows.end(), rows.begin(), rows.end());
      continue;
    }
    for (size_t at = 0; at < static_cast<size_t>(some) * hidden_; ++at) sum.values[at % hidden_] += rows[at];
  }
  sum.num_rows += static_cast<int>(count);
}

void Pooler::Pool(const RowsAt& rows_at, const std::vector<BatchMember>& batch, const SequenceTable& table,
                  std::vector<SampledToken>& tokens) {
  int64_t first_row = 0;
  std::span<SampledToken> rest(tokens);  // verified tokens of the members that are still to come
  for (const BatchMember& member : batch) {
    SampledToken* const token = member.draws ? &rest.front() : nullptr;
    while (token != nullptr && !rest.empty() && rest.front().slot == member.slot) rest = rest.subspan(1);
    const int64_t row = std::exchange(first_row, first_row + member.count);
    if (!table.Has(member.slot)) continue;
    const SequenceState& sequence = table.at(member.slot);
    const Pooling pooling = sequence.sampling.pooling;
    if (pooling == Pooling::kNone || member.start >= sequence.num_prompt_tokens) continue;
    Sum& sum = sums_[member.slot];
    if (sum.serial != sequence.serial) sum = {sequence.serial, 0, {}, {}};
    const ScoredRows rows = RowsToPool(pooling, sequence.num_prompt_tokens, member.start, member.count);
    if (rows.count > 0 && PoolsFromTheFirst(pooling) && sum.num_rows != rows.start)
      Fail("slot {} pools from row {} on, after {} others", member.slot, rows.start, sum.num_rows);
    Add(rows_at, pooling, row + rows.start - member.start, rows.count, sum);
    if (token == nullptr) continue;
    if (sum.num_rows == 0) Fail("slot {} has drawn, and no row of its prompt was pooled", member.slot);
    token->pooled = std::move(sum.rows);
    token->pooled.reserve(sum.values.size());
    for (const double value : sum.values) token->pooled.push_back(static_cast<float>(value / sum.num_rows));
    const auto finite = [](float value) { return std::isfinite(value); };
    if (!std::ranges::all_of(token->pooled, finite)) token->logprob = std::numeric_limits<float>::quiet_NaN();
    sums_.erase(member.slot);
  }
}

}  // namespace quire
