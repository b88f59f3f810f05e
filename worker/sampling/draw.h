#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// The leading tokens of a sequence after which one token is sampled. Where a step samples in several rows of a
/// sequence, each row has its own prefix. A Prefix holds a reference to the sequence. A SequenceState converts to the
/// prefix with all of its tokens.
struct Prefix {
  const SequenceState& sequence;
  size_t length;
  size_t num_guessed;  // drafts at the end of the prefix

  Prefix(const SequenceState& whole) : Prefix(whole, whole.tokens.size()) {}
  Prefix(const SequenceState& whole, size_t num_tokens, size_t num_drafts = 0)
      : sequence(whole), length(num_tokens), num_guessed(num_drafts) {}

  const SamplingSpec& sampling() const { return sequence.sampling; }
  std::span<const TokenId> tokens() const { return std::span(sequence.tokens).first(length); }
  std::span<const TokenId> generated() const {
    return tokens().subspan(static_cast<size_t>(sequence.num_prompt_tokens));
  }
};

// BansTokens returns whether some tokens are banned because the answer has not reached min_tokens. HasPenalties returns
// whether penalties change the logits of seen tokens. ForbidsTokens returns whether allowed tokens, bad words or a
// limit of the reasoning text may forbid tokens.
bool BansTokens(const Prefix& prefix);
bool HasPenalties(const SamplingSpec& spec);
bool ForbidsTokens(const SamplingSpec& spec);
/// Returns true for greedy sampling if the request wants no log-probabilities, and no setting changes or forbids
/// tokens. Then the best token that a grammar allows is taken.
bool NeedsOnlyTheBest(const Prefix& prefix);

/// Returns the number of alternatives to report with each token of the sequence.
size_t NumAlternatives(const SamplingSpec& spec, int64_t vocab_size);

/// Returns each token of the prefix with its number of occurrences among the generated tokens, in order of first
/// appearance. Tokens that occur only in the prompt have count 0. The function runs for each sampled token, so it goes
/// through the prefix once and never searches it.
std::vector<std::pair<TokenId, int32_t>> SeenTokens(const Prefix& prefix, size_t vocab_size);

/// Returns the number of words in a token mask; bit i % 32 of word i / 32 is for token i.
inline size_t MaskWords(int64_t vocab_size) { return static_cast<size_t>((vocab_size + 31) / 32); }

/// The grammar's verdict on the token after a prefix.
struct RowMask {
  TokenConstraint::Outcome outcome = TokenConstraint::Outcome::kMasked;
  std::span<const uint32_t> allowed;  // [MaskWords(vocab)]
};

/// Sets the logits of tokens whose bits in the mask `allowed` are 0 to minus infinity. logits[i] belongs to token first
/// + i, which has bit first + i of the mask.
void KeepAllowed(std::span<const uint32_t> allowed, int64_t first, std::span<float> logits);

/// Returns the result for a row in which no token can be sampled: `drawn` with the mark for `outcome`, which must not
/// be kMasked.
SampledToken MarkOf(TokenConstraint::Outcome outcome, SampledToken drawn);

/// Samples the token after the prefix from one whole row of logits, by the sequence's sampling settings. Overwrites
/// `logits`. `mask` is set if and only if the sequence has a grammar. The result depends on the arguments alone.
SampledToken DrawFromRow(std::span<float> logits, const Prefix& prefix, SlotId slot, const RowMask* mask = nullptr);

/// Masks the rows of one step and samples their tokens. Once the grammar of one choice of a request exceeds its work
/// limit, the request ends, and its other choices are no longer masked: the work of a step for a request must not grow
/// with the number of choices.
class RowDrawer {
 public:
  /// Asks the constraint of a sequence with a grammar which tokens may follow the prefix. Returns kOverworked without
  /// asking if another choice of the request exceeded its work limit in an earlier call. The mask is valid until the
  /// next call.
  RowMask Allow(const Prefix& prefix, int64_t vocab_size);
  SampledToken Draw(std::span<float> logits, const Prefix& prefix, SlotId slot);

 private:
  std::vector<SequenceState> overworked_;
  std::vector<uint32_t> allowed_;
};

/// The number of prompt rows that are scored together. This number bounds the memory of the logits.
inline constexpr int kScoredAtOnce = 32;

/// Returns an empty result for the prompt rows `rows`, with memory reserved for their log-probabilities.
PromptScores EmptyScores(SlotId slot, const SequenceState& sequence, ScoredRows rows, int64_t vocab_size);
/// Appends the log-probability of the prompt token after `position`. `logits` is the whole row computed at `position`.
void AddScore(std::span<const float> logits, const SequenceState& sequence, int position, PromptScores& scores);

}  // namespace quire
