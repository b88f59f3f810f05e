#include "worker/cpu/sampler.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "kernels/cpu/thread_pool.h"

namespace quire {

Sampler::Sampler(std::vector<Range> vocab_of_rank, Collective& collective, const kernels::CpuStream& stream)
    : vocab_of_rank_(std::move(vocab_of_rank)),
      vocab_size_(vocab_of_rank_.back().end),
      collective_(collective),
      stream_(stream),
      joined_rows_(static_cast<size_t>(stream.pool().num_threads())) {}

std::vector<SampledToken> Sampler::Draw(const LogitsOfRows& logits_of, const std::vector<BatchMember>& batch,
                                        const SequenceTable& table) {
  std::vector<SampledToken> out, some;
  prefixes_.clear();
  const auto draw = [&] {
    if (some.empty()) return;
    DrawRows(logits_of(std::ssize(out), std::ssize(some)), some);
    std::ranges::move(some, std::back_inserter(out));
    some.clear();
    prefixes_.clear();
  };
  for (const BatchMember& member : batch) {
    const SequenceState& sequence = table.at(member.slot);
    for (int row = 0; row < member.num_rows(); ++row) {
      if (std::ssize(some) == kDrawnAtOnce) draw();
      const int length = member.start + member.count - member.num_drafts + row;
      some.push_back({member.slot, 0, 0, {}});
      prefixes_.emplace_back(sequence, static_cast<size_t>(length), static_cast<size_t>(row));
    }
  }
  draw();
  table.KeepVerified(batch, out);
  return out;
}

void Sampler::DrawRows(std::span<float> logits, std::vector<SampledToken>& out) {
  std::vector<size_t> greedy, masked, whole;
  for (size_t i = 0; i < out.size(); ++i) {
    const SequenceState& sequence = prefixes_[i].sequence;
    auto& rows = !NeedsOnlyTheBest(prefixes_[i]) ? whole : sequence.constraint != nullptr ? masked : greedy;
    rows.push_back(i);
  }
  if (!masked.empty()) {
    const std::vector<size_t> allowed = Mask(logits, masked, out);
    greedy.insert(greedy.end(), allowed.begin(), allowed.end());
  }
  if (!greedy.empty()) DrawGreedy(logits, greedy, out);
  if (!whole.empty()) {
    Deal(logits, whole);
    DrawDealt(logits, whole, out);
    ShareDrawn(whole, out);
  }
}

std::vector<size_t> Sampler::Mask(std::span<float> logits, const std::vector<size_t>& rows,
                                  std::vector<SampledToken>& out) {
  // A row's entry in masks_ has the grammar's outcome in its first word, then the mask of allowed tokens.
  const size_t words = 1 + MaskWords(vocab_size_);
  RowDrawer drawer;
  masks_.clear();
  for (size_t i = rank(); i < rows.size(); i += num_ranks()) {
    const RowMask mask = drawer.Allow(prefixes_[rows[i]], vocab_size_);
    masks_.push_back(static_cast<uint32_t>(mask.outcome));
    masks_.insert(masks_.end(), mask.allowed.begin(), mask.allowed.end());
    masks_.resize((masks_.size() + words - 1) / words * words);
  }
  if (num_ranks() > 1) {
    std::vector<size_t> counts;
    for (size_t r = 0; r < num_ranks(); ++r) counts.push_back(NumDealt(rows.size(), r) * words * sizeof(uint32_t));
    masks_dealt_.resize(rows.size() * words);
    collective_.AllGather(std::as_bytes(std::span(masks_)), counts, std::as_writable_bytes(std::span(masks_dealt_)));
    std::swap(masks_, masks_dealt_);
  }
  const Range local = vocab_of_rank_[rank()];
  const auto width = static_cast<size_t>(local.size());
  std::vector<size_t> allowed;
  size_t before = 0;  // number of rows dealt to lower ranks
  for (size_t r = 0; r < num_ranks(); before += NumDealt(rows.size(), r), ++r) {
    for (size_t i = r; i < rows.size(); i += num_ranks()) {
      const auto mask = std::span(masks_).subspan((before + i / num_ranks()) * words, words);
      const auto outcome = static_cast<TokenConstraint::Outcome>(mask.front());
      if (outcome == TokenConstraint::Outcome::kMasked) {
        KeepAllowed(mask.subspan(1), local.begin, logits.subspan(rows[i] * width, width));
        allowed.push_back(rows[i]);
      } else {
        out[rows[i]] = MarkOf(outcome, out[rows[i]]);
      }
    }
  }
  return allowed;
}

void Sampler::DrawGreedy(std::span<const float> logits, const std::vector<size_t>& rows,
                         std::vector<SampledToken>& out) {
  const Range local = vocab_of_rank_[static_cast<size_t>(collective_.rank())];
  const auto width = static_cast<size_t>(local.size());
  const auto ranks = static_cast<size_t>(collective_.size());
  std::vector<kernels::Candidate> mine(rows.size()), all(rows.size() * ranks);
  stream_.pool().ForEach(std::ssize(rows), [&](int64_t i, int) {
    kernels::Candidate best{-std::numeric_limits<float>::infinity(), 0};
    if (width > 0) best = kernels::ArgMax(logits.subspan(rows[static_cast<size_t>(i)] * width, width));
    mine[static_cast<size_t>(i)] = {best.logit, best.token + static_cast<int32_t>(local.begin)};
  });
  const std::vector<size_t> counts(ranks, mine.size() * sizeof(kernels::Candidate));
  collective_.AllGather(std::as_bytes(std::span(mine)), counts, std::as_writable_bytes(std::span(all)));
  for (size_t i = 0; i < rows.size(); ++i) {
    kernels::Candidate best = all[i];
    for (size_t rank = 1; rank < ranks; ++rank) {  // ranks hold ascending ids, so the lowest id wins a tie
      if (all[rank * rows.size() + i].logit > best.logit) best = all[rank * rows.size() + i];
    }
    out[rows[i]].token = best.token;
    if (!std::isfinite(best.logit)) out[rows[i]].logprob = std::numeric_limits<float>::quiet_NaN();
  }
}

void Sampler::Deal(std::span<const float> logits, const std::vector<size_t>& rows) {
  if (num_ranks() == 1) return;
  const auto width = static_cast<ptrdiff_t>(vocab_of_rank_[rank()].size());
  outgoing_.clear();
  for (size_t to = 0; to < num_ranks(); ++to) {
    for (size_t i = to; i < rows.size(); i += num_ranks()) {
      const auto row = logits.begin() + static_cast<ptrdiff_t>(rows[i]) * width;
      outgoing_.insert(outgoing_.end(), row, row + width);
    }
  }
  std::vector<size_t> sizes;
  for (const Range& from : vocab_of_rank_) {
    for (size_t to = 0; to < num_ranks(); ++to)
      sizes.push_back(NumDealt(rows.size(), to) * static_cast<size_t>(from.size()) * sizeof(float));
  }
  incoming_.resize(NumDealt(rows.size(), rank()) * static_cast<size_t>(vocab_size_));
  collective_.AllToAll(std::as_bytes(std::span(outgoing_)), sizes, std::as_writable_bytes(std::span(incoming_)));
}

std::span<float> Sampler::DealtRow(std::span<float> logits, const std::vector<size_t>& rows, size_t i, int thread) {
  const auto width = static_cast<size_t>(vocab_size_);
  if (num_ranks() == 1) return logits.subspan(rows[i] * width, width);
  std::vector<float>& joined = joined_rows_[static_cast<size_t>(thread)];
  joined.clear();
  const float* part = incoming_.data();
  for (const Range& range : vocab_of_rank_) {
    const float* mine = part + static_cast<ptrdiff_t>(i / num_ranks()) * range.size();
    joined.insert(joined.end(), mine, mine + range.size());
    part += static_cast<ptrdiff_t>(NumDealt(rows.size(), rank())) * range.size();
  }
  return joined;
}

void Sampler::DrawDealt(std::span<float> logits, const std::vector<size_t>& rows, std::vector<SampledToken>& out) {
  std::vector<size_t> without_grammar;  // indices of `rows`
  RowDrawer drawer;
  for (size_t i = rank(); i < rows.size(); i += num_ranks()) {
    if (prefixes_[rows[i]].sequence.constraint == nullptr) {
      without_grammar.push_back(i);
    } else {
      out[rows[i]] = drawer.Draw(DealtRow(logits, rows, i, 0), prefixes_[rows[i]], out[rows[i]].slot);
    }
  }
  stream_.pool().ForEach(std::ssize(without_grammar), [&](int64_t item, int thread) {
    const size_t i = without_grammar[static_cast<size_t>(item)];
    SampledToken& drawn = out[rows[i]];
    drawn = DrawFromRow(DealtRow(logits, rows, i, thread), prefixes_[rows[i]], drawn.slot);
  });
}

Sampler::Records Sampler::Share(const std::vector<size_t>& sizes, const Records& mine) {
  const auto ranks = static_cast<size_t>(collective_.size());
  std::vector<size_t> counts(ranks), at(ranks);
  for (size_t i = 0; i < sizes.size(); ++i) counts[i % ranks] += sizes[i] * sizeof(kernels::Candidate);
  for (size_t r = 1; r < ranks; ++r) at[r] = at[r - 1] + counts[r - 1] / sizeof(kernels::Candidate);
  Records dealt(at.back() + counts.back() / sizeof(kernels::Candidate)), in_order;
  collective_.AllGather(std::as_bytes(std::span(mine)), counts, std::as_writable_bytes(std::span(dealt)));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto begin = dealt.begin() + static_cast<ptrdiff_t>(at[i % ranks]);
    in_order.insert(in_order.end(), begin, begin + static_cast<ptrdiff_t>(sizes[i]));
    at[i % ranks] += sizes[i];
  }
  return in_order;
}

void Sampler::ShareDrawn(const std::vector<size_t>& rows, std::vector<SampledToken>& out) {
  const size_t ranks = num_ranks();
  if (ranks == 1) return;
  // A row's records are its token and then its alternatives, each with its log-probability.
  std::vector<size_t> sizes;
  for (const size_t row : rows) sizes.push_back(1 + NumAlternatives(prefixes_[row].sampling(), vocab_size_));
  Records mine;
  for (size_t i = rank(); i < rows.size(); i += ranks) {
    const SampledToken& drawn = out[rows[i]];
    mine.push_back({drawn.logprob, drawn.token});
    for (const auto& [token, logprob] : drawn.top) mine.push_back({logprob, token});
  }
  const Records all = Share(sizes, mine);
  const kernels::Candidate* next = all.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    SampledToken& drawn = out[rows[i]];
    drawn.token = next->token, drawn.logprob = next->logit;
    drawn.top.clear();
    for (size_t n = 1; n < sizes[i]; ++n) drawn.top.emplace_back(next[n].token, next[n].logit);
    next += sizes[i];
  }
}

void Sampler::ShareScored(int num_rows, const PromptScores& mine, PromptScores& scores) {
  // A row's records are its token's log-probability and rank, then its alternatives.
  const auto num_top = static_cast<size_t>(mine.num_top);
  Records records;
  for (size_t i = 0; i < mine.count(); ++i) {
    records.push_back({mine.logprobs[i], mine.ranks[i]});
    for (size_t n = 0; n < num_top; ++n) {
      const auto& [token, logprob] = mine.top[i * num_top + n];
      records.push_back({logprob, token});
    }
  }
  records = Share(std::vector<size_t>(static_cast<size_t>(num_rows), 1 + num_top), records);
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& [number, id] = records[i];
    if (i % (1 + num_top) == 0) {
      scores.logprobs.push_back(number);
      scores.ranks.push_back(id);
    } else {
      scores.top.emplace_back(id, number);
    }
  }
}

std::vector<PromptScores> Sampler::Score(const LogitsOfRows& logits_of, const std::vector<BatchMember>& batch,
                                         const SequenceTable& table) {
  std::vector<PromptScores> out;
  int64_t first_row = 0;
  for (const BatchMember& member : batch) {
    const SequenceState& sequence = table.at(member.slot);
    const int end = member.scores.start + member.scores.count;
    if (member.scores.count > 0) out.push_back(EmptyScores(member.slot, sequence, member.scores, vocab_size_));
    for (int position = member.scores.start; position < end; position += kScoredAtOnce) {
      const int count = std::min(kScoredAtOnce, end - position);
      std::vector<size_t> rows(static_cast<size_t>(count));
      std::iota(rows.begin(), rows.end(), 0);
      const std::span<float> logits = logits_of(first_row + position - member.start, count);
      Deal(logits, rows);
      PromptScores mine{member.slot, position, out.back().num_top, {}, {}, {}};
      std::vector<PromptScores> each(NumDealt(rows.size(), rank()), mine);
      stream_.pool().ForEach(std::ssize(each), [&](int64_t item, int thread) {
        const size_t i = rank() + static_cast<size_t>(item) * num_ranks();
        AddScore(DealtRow(logits, rows, i, thread), sequence, position + static_cast<int>(i),
                 each[static_cast<size_t>(item)]);
      });
      for (const PromptScores& one : each) {
        mine.logprobs.insert(mine.logprobs.end(), one.logprobs.begin(), one.logprobs.end());
        mine.ranks.insert(mine.ranks.end(), one.ranks.begin(), one.ranks.end());
        mine.top.insert(mine.top.end(), one.top.begin(), one.top.end());
      }
      ShareScored(count, mine, out.back());
    }
    first_row += member.count;
  }
  return out;
}

}  // namespace quire
