#include "worker/sampling/draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/sampling.h"
#include "worker/sampling/thought_limit.h"

namespace quire {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Sets the logits of forbidden tokens to minus infinity: all but the allowed tokens, and tokens that would complete a
/// bad word. Once the reasoning text has reached its limit, only the next token of its closing sequence stays allowed.
void Forbid(const Prefix& prefix, std::span<float> logits) {
  const SamplingSpec& spec = prefix.sampling();
  const std::span<const TokenId> generated = prefix.generated();
  if (const auto end = TokenThatEndsThoughts(spec.thoughts, generated)) {
    const float logit = logits[static_cast<size_t>(*end)];
    std::ranges::fill(logits, kNever);
    logits[static_cast<size_t>(*end)] = logit;
    return;
  }
  if (!spec.allowed_tokens.empty()) {
    std::vector<float> allowed;
    for (const TokenId token : spec.allowed_tokens) allowed.push_back(logits[static_cast<size_t>(token)]);
    std::ranges::fill(logits, kNever);
    for (size_t i = 0; i < allowed.size(); ++i) logits[static_cast<size_t>(spec.allowed_tokens[i])] = allowed[i];
  }
  for (const auto& word : spec.bad_words) {
    const auto begin = std::span(word).first(word.size() - 1);
    if (begin.size() <= generated.size() && std::ranges::equal(begin, generated.last(begin.size())))
      logits[static_cast<size_t>(word.back())] = kNever;
  }
}

/// Returns true if both sequences are choices of one request, or of requests with the same prompt, seed and grammar.
bool AreAlike(const SequenceState& a, const SequenceState& b) {
  const auto prompt = [](const SequenceState& s) {
    return std::span(s.tokens).first(static_cast<size_t>(s.num_prompt_tokens));
  };
  return a.sampling.seed == b.sampling.seed && a.sampling.grammar == b.sampling.grammar &&
         std::ranges::equal(prompt(a), prompt(b));
}

}  // namespace

bool BansTokens(const Prefix& prefix) {
  const SamplingSpec& spec = prefix.sampling();
  return !spec.banned_until_min.empty() && std::ssize(prefix.generated()) < spec.min_tokens;
}

bool HasPenalties(const SamplingSpec& s) {
  return s.repetition_penalty != 1.0f || s.frequency_penalty != 0.0f || s.presence_penalty != 0.0f;
}

bool NeedsOnlyTheBest(const Prefix& prefix) {
  const SamplingSpec& spec = prefix.sampling();
  return spec.temperature <= 0.0f && spec.num_logprobs < 0 && spec.logit_bias.empty() && !HasPenalties(spec) &&
         !ForbidsTokens(spec) && !BansTokens(prefix);
}

size_t NumAlternatives(const SamplingSpec& s, int64_t vocab_size) {
  if (s.num_logprobs < 0) return 0;
  if (!s.logprob_tokens.empty()) return s.logprob_tokens.size();
  return static_cast<size_t>(std::min<int64_t>(s.num_logprobs, vocab_size));
}

bool ForbidsTokens(const SamplingSpec& s) {
  return !s.allowed_tokens.empty() || !s.bad_words.empty() || s.thoughts.tokens >= 0;
}

std::vector<std::pair<TokenId, int32_t>> SeenTokens(const Prefix& prefix, size_t vocab_size) {
  constexpr int32_t kUnseen = -1;
  std::vector<int32_t> places(vocab_size, kUnseen);  // each token's index in `seen`
  std::vector<std::pair<TokenId, int32_t>> seen;
  const std::span<const TokenId> tokens = prefix.tokens();
  for (size_t i = 0; i < tokens.size(); ++i) {
    int32_t& place = places[static_cast<size_t>(tokens[i])];
    if (place == kUnseen) {
      place = static_cast<int32_t>(seen.size());
      seen.emplace_back(tokens[i], 0);
    }
    if (i >= static_cast<size_t>(prefix.sequence.num_prompt_tokens)) ++seen[static_cast<size_t>(place)].second;
  }
  return seen;
}

void KeepAllowed(std::span<const uint32_t> allowed, int64_t first, std::span<float> logits) {
  const auto shift = static_cast<unsigned>(first % 32);
  for (size_t begin = 0; begin < logits.size(); begin += 32) {
    // The bits of 32 tokens span two words if the rank's part of the vocabulary begins inside a word.
    const size_t entry = (static_cast<size_t>(first) + begin) / 32;
    const uint64_t next = entry + 1 < allowed.size() ? allowed[entry + 1] : 0;
    auto forbidden = static_cast<uint32_t>(~((next << 32 | allowed[entry]) >> shift));
    const auto part = logits.subspan(begin, std::min<size_t>(32, logits.size() - begin));
    if (forbidden == ~0u) {
      std::ranges::fill(part, kNever);
      continue;
    }
    if (part.size() < 32) forbidden &= (1u << part.size()) - 1;
    for (; forbidden != 0; forbidden &= forbidden - 1) part[static_cast<size_t>(std::countr_zero(forbidden))] = kNever;
  }
}

SampledToken MarkOf(TokenConstraint::Outcome outcome, SampledToken drawn) {
  const bool overworked = outcome == TokenConstraint::Outcome::kOverworked;
  drawn.logprob = overworked ? std::numeric_limits<float>::infinity() : kNever;
  return drawn;
}

SampledToken DrawFromRow(std::span<float> logits, const Prefix& prefix, SlotId slot, const RowMask* mask) {
  const SamplingSpec& spec = prefix.sampling();
  SampledToken drawn{slot, 0, 0, {}};
  double log_sum_exp = 0;
  std::vector<float> raw;
  if (spec.num_logprobs >= 0) {  // the reported log-probabilities are the model's own, before any setting
    raw.assign(logits.begin(), logits.end());
    log_sum_exp = kernels::LogSumExp(raw);
    if (spec.logprob_tokens.empty()) drawn.top = kernels::TopLogprobs(raw, log_sum_exp, spec.num_logprobs);
    for (const TokenId token : spec.logprob_tokens)
      drawn.top.emplace_back(token, static_cast<float>(raw[static_cast<size_t>(token)] - log_sum_exp));
  }
  for (const auto& [token, bias] : spec.logit_bias) logits[static_cast<size_t>(token)] += bias;
  if (BansTokens(prefix)) {
    for (const TokenId token : spec.banned_until_min) logits[static_cast<size_t>(token)] = kNever;
  }
  Forbid(prefix, logits);
  if (mask != nullptr) {
    if (mask->outcome != TokenConstraint::Outcome::kMasked) return MarkOf(mask->outcome, drawn);
    KeepAllowed(mask->allowed, 0, logits);
  }
  if (HasPenalties(spec)) {
    kernels::ApplyPenalties(logits, {spec.repetition_penalty, spec.frequency_penalty, spec.presence_penalty},
                            SeenTokens(prefix, logits.size()));
  }
  drawn.token = kernels::SampleToken(logits, {spec.temperature, spec.top_k, spec.top_p, spec.min_p},
                                     {spec.seed, spec.choice, prefix.length});
  if (drawn.token < 0) {
    // If the request's settings forbid every token, the row is a dead end. Otherwise the model's logits are broken.
    const bool forbidden = std::ranges::all_of(logits, [](float logit) { return logit == kNever; });
    drawn.token = 0;
    drawn.logprob = forbidden && ForbidsTokens(spec) ? kNever : std::numeric_limits<float>::quiet_NaN();
  } else if (spec.num_logprobs >= 0) {
    const double logprob = raw[static_cast<size_t>(drawn.token)] - log_sum_exp;
    // The log-probability is made finite, because an infinite value would mark the row as broken.
    drawn.logprob = static_cast<float>(std::max<double>(logprob, std::numeric_limits<float>::lowest()));
  }
  return drawn;
}

RowMask RowDrawer::Allow(const Prefix& prefix, int64_t vocab_size) {
  const SequenceState& sequence = prefix.sequence;
  const auto ended = [&](const SequenceState& other) { return AreAlike(sequence, other); };
  RowMask mask{TokenConstraint::Outcome::kOverworked, {}};
  if (std::ranges::any_of(overworked_, ended)) return mask;
  allowed_.resize(MaskWords(vocab_size));
  mask = {sequence.constraint->Allow(prefix.generated(), prefix.num_guessed, allowed_), allowed_};
  const bool overworked = mask.outcome == TokenConstraint::Outcome::kOverworked;
  if (overworked && prefix.num_guessed == 0) overworked_.push_back(sequence);
  return mask;
}

SampledToken RowDrawer::Draw(std::span<float> logits, const Prefix& prefix, SlotId slot) {
  if (prefix.sequence.constraint == nullptr) return DrawFromRow(logits, prefix, slot);
  const RowMask mask = Allow(prefix, static_cast<int64_t>(logits.size()));
  return DrawFromRow(logits, prefix, slot, &mask);
}

PromptScores EmptyScores(SlotId slot, const SequenceState& sequence, ScoredRows rows, int64_t vocab_size) {
  PromptScores scores{slot, rows.start, 0, {}, {}, {}};
  scores.num_top = static_cast<int32_t>(std::clamp<int64_t>(sequence.sampling.num_prompt_logprobs, 0, vocab_size));
  const auto count = static_cast<size_t>(rows.count);
  scores.logprobs.reserve(count);
  scores.ranks.reserve(count);
  scores.top.reserve(count * static_cast<size_t>(scores.num_top));
  return scores;
}

void AddScore(std::span<const float> logits, const SequenceState& sequence, int position, PromptScores& scores) {
  const TokenId token = sequence.tokens[static_cast<size_t>(position) + 1];
  const double log_sum_exp = kernels::LogSumExp(logits);
  const auto logprob = static_cast<float>(logits[static_cast<size_t>(token)] - log_sum_exp);
  // A row without a finite log-sum-exp is broken, whatever the logit of `token` is.
  scores.logprobs.push_back(std::isfinite(log_sum_exp) ? logprob : std::numeric_limits<float>::quiet_NaN());
  scores.ranks.push_back(kernels::RankOf(logits, token));
  const auto top = kernels::TopLogprobs(logits, log_sum_exp, scores.num_top);
  scores.top.insert(scores.top.end(), top.begin(), top.end());
}

}  // namespace quire
