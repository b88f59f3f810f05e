#include "worker/cpu/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/sampling.h"
#include "worker/draw.h"

namespace quire {

Sampler::Sampler(std::vector<Range> vocab_of_rank, Collective& collective)
    : vocab_of_rank_(std::move(vocab_of_rank)), vocab_size_(vocab_of_rank_.back().end), collective_(collective) {}

std::vector<SampledToken> Sampler::Draw(std::span<const float> logits, const std::vector<BatchMember>& batch,
                                        const SequenceTable& table) {
  std::vector<SampledToken> out;
  std::vector<size_t> greedy, whole;
  for (const BatchMember& member : batch) {
    if (!member.draws) continue;
    (NeedsOnlyTheBest(table.at(member.slot)) ? greedy : whole).push_back(out.size());
    out.push_back({member.slot, 0, 0, {}});
  }
  if (!greedy.empty()) DrawGreedy(logits, greedy, out);
  if (!whole.empty()) {
    std::vector<float> rows = GatherRows(logits, whole);
    for (auto i = static_cast<size_t>(collective_.rank()); i < whole.size();
         i += static_cast<size_t>(collective_.size())) {
      const SlotId slot = out[whole[i]].slot;
      const auto width = static_cast<size_t>(vocab_size_);
      out[whole[i]] = DrawFromRow(std::span(rows).subspan(i * width, width), table.at(slot), slot);
    }
    ShareDrawn(whole, table, out);
  }
  return out;
}

void Sampler::DrawGreedy(std::span<const float> logits, const std::vector<size_t>& rows,
                         std::vector<SampledToken>& out) {
  const Range local = vocab_of_rank_[static_cast<size_t>(collective_.rank())];
  const auto width = static_cast<size_t>(local.size());
  const auto ranks = static_cast<size_t>(collective_.size());
  std::vector<kernels::Candidate> mine, all(rows.size() * ranks);
  for (const size_t row : rows) {
    kernels::Candidate best{-std::numeric_limits<float>::infinity(), 0};
    if (width > 0) best = kernels::ArgMax(logits.subspan(row * width, width));
    mine.push_back({best.logit, best.token + static_cast<int32_t>(local.begin)});
  }
  const std::vector<size_t> counts(ranks, mine.size() * sizeof(kernels::Candidate));
  collective_.AllGather(std::as_bytes(std::span(mine)), counts, std::as_writable_bytes(std::span(all)));
  for (size_t i = 0; i < rows.size(); ++i) {
    kernels::Candidate best = all[i];
    for (size_t rank = 1; rank < ranks; ++rank) {  // ranks hold rising ids, so the lowest id wins a tie
      if (all[rank * rows.size() + i].logit > best.logit) best = all[rank * rows.size() + i];
    }
    out[rows[i]].token = best.token;
    if (!std::isfinite(best.logit)) out[rows[i]].logprob = std::numeric_limits<float>::quiet_NaN();
  }
}

std::vector<float> Sampler::GatherRows(std::span<const float> logits, const std::vector<size_t>& rows) {
  const auto width = static_cast<size_t>(vocab_of_rank_[static_cast<size_t>(collective_.rank())].size());
  std::vector<float> mine, all(rows.size() * static_cast<size_t>(vocab_size_)), out(all.size());
  for (const size_t row : rows)
    mine.insert(mine.end(), logits.begin() + static_cast<ptrdiff_t>(row * width),
                logits.begin() + static_cast<ptrdiff_t>((row + 1) * width));
  std::vector<size_t> counts;
  for (const Range& range : vocab_of_rank_)
    counts.push_back(rows.size() * static_cast<size_t>(range.size()) * sizeof(float));
  collective_.AllGather(std::as_bytes(std::span(mine)), counts, std::as_writable_bytes(std::span(all)));
  const float* part = all.data();
  for (const Range& range : vocab_of_rank_) {
    for (size_t i = 0; i < rows.size(); ++i, part += range.size()) {
      std::copy(part, part + range.size(), out.begin() + static_cast<ptrdiff_t>(i) * vocab_size_ + range.begin);
    }
  }
  return out;
}

void Sampler::ShareDrawn(const std::vector<size_t>& rows, const SequenceTable& table, std::vector<SampledToken>& out) {
  const auto ranks = static_cast<size_t>(collective_.size()), rank = static_cast<size_t>(collective_.rank());
  if (ranks == 1) return;
  // Of each row its token, then its alternatives, with their log-probabilities.
  const auto num_top = [&](size_t row) {
    return static_cast<size_t>(std::clamp<int64_t>(table.at(out[row].slot).sampling.num_logprobs, 0, vocab_size_));
  };
  std::vector<size_t> counts(ranks), at(ranks);
  for (size_t i = 0; i < rows.size(); ++i) counts[i % ranks] += (1 + num_top(rows[i])) * sizeof(kernels::Candidate);
  std::vector<kernels::Candidate> mine;
  for (size_t i = rank; i < rows.size(); i += ranks) {
    const SampledToken& drawn = out[rows[i]];
    mine.push_back({drawn.logprob, drawn.token});
    for (const auto& [token, logprob] : drawn.top) mine.push_back({logprob, token});
  }
  for (size_t r = 1; r < ranks; ++r) at[r] = at[r - 1] + counts[r - 1] / sizeof(kernels::Candidate);
  std::vector<kernels::Candidate> all(at.back() + counts.back() / sizeof(kernels::Candidate));
  collective_.AllGather(std::as_bytes(std::span(mine)), counts, std::as_writable_bytes(std::span(all)));
  for (size_t i = 0; i < rows.size(); ++i) {
    SampledToken& drawn = out[rows[i]];
    const kernels::Candidate* next = all.data() + at[i % ranks];
    drawn.token = next->token, drawn.logprob = next->logit;
    drawn.top.clear();
    for (size_t n = num_top(rows[i]); n > 0; --n) ++next, drawn.top.emplace_back(next->token, next->logit);
    at[i % ranks] += 1 + drawn.top.size();
  }
}

}  // namespace quire
