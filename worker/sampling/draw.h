#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

// What a sequence's sampling settings ask of its next draw.
bool BansTokens(const SequenceState& sequence);
bool HasPenalties(const SamplingSpec& spec);
bool ForbidsTokens(const SamplingSpec& spec);
/// Greedy, and nothing else is asked for: the best token, of those that the grammar allows where it has one.
bool NeedsOnlyTheBest(const SequenceState& sequence);

/// Alternatives that are reported with each of the sequence's tokens.
size_t NumAlternatives(const SamplingSpec& spec, int64_t vocab_size);

/// Occurrences among the generated tokens, in the order in which tokens came; prompt tokens are listed with what they
/// add, 0. It is made for every draw, so it takes a pass over the sequence and no search.
std::vector<std::pair<TokenId, int32_t>> SeenTokens(const SequenceState& sequence, size_t vocab_size);

/// Entries of a mask, bit i % 32 of entry i / 32 for token i.
inline size_t MaskWords(int64_t vocab_size) { return static_cast<size_t>((vocab_size + 31) / 32); }

/// What a sequence's grammar says of its next token.
struct RowMask {
  TokenConstraint::Outcome outcome = TokenConstraint::Outcome::kMasked;
  std::span<const uint32_t> allowed;  // [MaskWords(vocab)]
};

/// Leaves of the logits, of the tokens from `first` on, those that are allowed; the others become minus infinity.
void KeepAllowed(std::span<const uint32_t> allowed, int64_t first, std::span<float> logits);

/// The token of a row that cannot be drawn from, with its mark. Not for kMasked.
SampledToken MarkOf(TokenConstraint::Outcome outcome, SampledToken drawn);

/// Draws from one whole row by the sequence's sampling; `logits` is scratch. `mask` is there where the sequence has a
/// grammar. Depends on its arguments alone.
SampledToken DrawFromRow(std::span<float> logits, const SequenceState& sequence, SlotId slot,
                         const RowMask* mask = nullptr);

/// Masks and draws the rows of one step. Once a request's grammar is overworked in one of its choices, which ends the
/// request, its other choices are not masked any more: what a step may spend on a request does not grow with them.
class RowDrawer {
 public:
  /// Asks the grammar of a sequence that has one. The mask is good until the next call.
  RowMask Allow(const SequenceState& sequence, int64_t vocab_size);
  SampledToken Draw(std::span<float> logits, const SequenceState& sequence, SlotId slot);

 private:
  std::vector<SequenceState> overworked_;
  std::vector<uint32_t> allowed_;
};

/// So many rows of a prompt are scored at a time, whatever a step has of them: what they take of memory is bounded.
inline constexpr int kScoredAtOnce = 32;

/// Scores of the rows `rows` of the sequence's prompt, before there are any: room for them.
PromptScores EmptyScores(SlotId slot, const SequenceState& sequence, ScoredRows rows, int64_t vocab_size);
/// Adds the score of the row at `position`, given its whole logits: that of the token after it.
void AddScore(std::span<const float> logits, const SequenceState& sequence, int position, PromptScores& scores);

}  // namespace quire
