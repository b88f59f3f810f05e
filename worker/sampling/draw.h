#pragma once

#include <span>
#include <utility>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

// What a sequence's sampling settings ask of its next draw.
bool BansTokens(const SequenceState& sequence);
bool HasPenalties(const SamplingSpec& spec);
bool ForbidsTokens(const SamplingSpec& spec);
/// Greedy, and nothing else is asked for.
bool NeedsOnlyTheBest(const SequenceState& sequence);

/// Alternatives that are reported with each of the sequence's tokens.
size_t NumAlternatives(const SamplingSpec& spec, int64_t vocab_size);

/// Occurrences among the generated tokens; prompt tokens are listed with what they add, 0.
std::vector<std::pair<TokenId, int32_t>> SeenTokens(const SequenceState& sequence);

/// Draws from one whole row by the sequence's sampling; `logits` is scratch. Depends on its arguments alone, the
/// grammar's state included, which is what the tokens make it.
SampledToken DrawFromRow(std::span<float> logits, const SequenceState& sequence, SlotId slot);

/// Draws the rows of one step. Once a request's grammar is overworked in one of its choices, which ends the request,
/// its other choices are not masked any more: what a step may spend on a request does not grow with them.
class RowDrawer {
 public:
  SampledToken Draw(std::span<float> logits, const SequenceState& sequence, SlotId slot);

 private:
  std::vector<SequenceState> overworked_;
};

/// So many rows of a prompt are scored at a time, whatever a step has of them: what they take of memory is bounded.
inline constexpr int kScoredAtOnce = 32;

/// Scores of the rows `rows` of the sequence's prompt, before there are any: room for them.
PromptScores EmptyScores(SlotId slot, const SequenceState& sequence, ScoredRows rows, int64_t vocab_size);
/// Adds the score of the row at `position`, given its whole logits: that of the token after it.
void AddScore(std::span<const float> logits, const SequenceState& sequence, int position, PromptScores& scores);

}  // namespace quire
