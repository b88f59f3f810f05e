#include "worker/cpu/sampler.h"

#include <algorithm>
#include <limits>
#include <map>

#include "kernels/sampling.h"

namespace quire {

namespace {

int NumGenerated(const SequenceState& s) { return static_cast<int>(s.tokens.size()) - s.num_prompt_tokens; }

bool BansTokens(const SequenceState& s) {
  return !s.sampling.banned_until_min.empty() && NumGenerated(s) < s.sampling.min_tokens;
}

bool HasPenalties(const SamplingSpec& s) {
  return s.repetition_penalty != 1.0f || s.frequency_penalty != 0.0f || s.presence_penalty != 0.0f;
}

bool NeedsOnlyTheBest(const SequenceState& s) {
  const SamplingSpec& spec = s.sampling;
  return spec.temperature <= 0.0f && spec.num_logprobs < 0 && spec.logit_bias.empty() && !HasPenalties(spec) &&
         !BansTokens(s);
}

/// Occurrences among the generated tokens; prompt tokens are listed with what they add, 0.
std::vector<std::pair<TokenId, int32_t>> SeenTokens(const SequenceState& s) {
  std::map<TokenId, int32_t> seen;
  for (size_t i = 0; i < s.tokens.size(); ++i)
    seen[s.tokens[i]] += i >= static_cast<size_t>(s.num_prompt_tokens) ? 1 : 0;
  return {seen.begin(), seen.end()};
}

}  // namespace

SampledToken DrawFromRow(std::span<float> logits, const SequenceState& sequence, SlotId slot) {
  const SamplingSpec& spec = sequence.sampling;
  SampledToken drawn{slot, 0, 0, {}};
  double log_sum_exp = 0;
  std::vector<float> raw;
  if (spec.num_logprobs >= 0) {  // reported probabilities are the model's own, before any setting of the request
    raw.assign(logits.begin(), logits.end());
    log_sum_exp = kernels::LogSumExp(raw);
    drawn.top = kernels::TopLogprobs(raw, log_sum_exp, spec.num_logprobs);
  }
  for (const auto& [token, bias] : spec.logit_bias) logits[static_cast<size_t>(token)] += bias;
  if (BansTokens(sequence)) {
    for (const TokenId token : spec.banned_until_min)
      logits[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
  if (HasPenalties(spec)) {
    kernels::ApplyPenalties(logits, {spec.repetition_penalty, spec.frequency_penalty, spec.presence_penalty},
                            SeenTokens(sequence));
  }
  drawn.token = kernels::SampleToken(logits, {spec.temperature, spec.top_k, spec.top_p, spec.min_p},
                                     {spec.seed, spec.choice, sequence.tokens.size()});
  if (spec.num_logprobs >= 0) {
    drawn.logprob = static_cast<float>(raw[static_cast<size_t>(drawn.token)] - log_sum_exp);
  }
  return drawn;
}

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
    for (size_t i = 0; i < whole.size(); ++i) {
      const SlotId slot = out[whole[i]].slot;
      const auto width = static_cast<size_t>(vocab_size_);
      out[whole[i]] = DrawFromRow(std::span(rows).subspan(i * width, width), table.at(slot), slot);
    }
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

}  // namespace quire
