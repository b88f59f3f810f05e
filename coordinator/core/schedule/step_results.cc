#include "coordinator/core/schedule/step_results.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

bool StepResults::Fits(const std::vector<SampledToken>& tokens) const {
  std::span<const SampledToken> rest(tokens);
  for (const StepMember& m : steps_.at(0).members) {
    if (!m.draws) continue;
    const std::span<const SampledToken> drawn = TakeDrawn(rest, m.slot, 1 + m.drafts.size());
    if (drawn.empty()) return false;
    const auto right = std::span(m.drafts).first(drawn.size() - 1);
    if (!std::ranges::equal(right, drawn.first(right.size()), {}, {}, &SampledToken::token)) return false;
    if (m.request == nullptr) continue;
    if (m.request->beams != nullptr && drawn.front().top.empty()) return false;
    const bool pools = m.request->sampling.pooling != Pooling::kNone && m.start < m.request->num_prompt_tokens();
    if (pools != !drawn.front().pooled.empty()) return false;
  }
  return rest.empty();
}

bool StepResults::Fits(const std::vector<PromptScores>& scores) const {
  size_t next = 0;
  for (const StepMember& m : steps_.at(0).members) {
    if (m.scores.count == 0) continue;
    if (next == scores.size()) return false;
    const PromptScores& s = scores[next++];
    const auto count = static_cast<size_t>(m.scores.count);
    if (s.slot != m.slot || s.start != m.scores.start || s.count() != count || s.ranks.size() != count ||
        s.top.size() != count * static_cast<size_t>(s.num_top)) {
      return false;
    }
    if (m.request != nullptr && s.num_top > m.request->sampling.num_prompt_logprobs) return false;
  }
  return next == scores.size();
}

bool StepResults::Fits(const std::vector<Draft>& guesses) const {
  const auto& members = steps_.at(0).members;
  auto member = members.begin();
  return std::ranges::all_of(guesses, [&](const Draft& guess) {
    member =
        std::find_if(member, members.end(), [&](const StepMember& m) { return m.guess > 0 && m.slot == guess.slot; });
    if (member == members.end()) return false;
    const auto most = static_cast<size_t>((member++)->guess);
    return !guess.tokens.empty() && guess.tokens.size() <= most;
  });
}

std::optional<RequestId> StepResults::RequestOf(SlotId slot) const {
  const auto& members = steps_.at(0).members;
  const auto member = std::ranges::find(members, slot, &StepMember::slot);
  if (member == members.end() || member->request == nullptr) return std::nullopt;
  return member->request->id;
}

/// Stores the draft model's drafts for the next step. Drafts for sequences that have left are dropped.
void StepResults::KeepGuesses(const std::vector<Draft>& guesses) {
  for (const Draft& guess : guesses) {
    const auto& members = steps_.at(0).members;
    Sequence* sequence = std::ranges::find(members, guess.slot, &StepMember::slot)->sequence;
    if (sequence == nullptr) continue;
    sequence->guess = guess.tokens;
    sequence->guess_at = sequence->num_tokens();
  }
}

std::span<const StepResults::Drawn> StepResults::Commit(const std::vector<SampledToken>& tokens,
                                                        const std::vector<Draft>& guesses) {
  drawn_.clear();
  std::span<const SampledToken> rest(tokens);
  for (const StepMember& m : steps_.oldest().members) {
    std::span<const SampledToken> drawn;
    if (m.draws) {
      drawn = TakeDrawn(rest, m.slot, 1 + m.drafts.size());
      QUIRE_CHECK(!drawn.empty(), "{} results are left, and none for slot {}", rest.size(), m.slot);
    }
    if (m.sequence == nullptr) continue;
    // The step computed the keys and values of right drafts. Keys and values of wrong drafts will be overwritten.
    const std::span<const SampledToken> right = drawn.first(drawn.empty() ? 0 : drawn.size() - 1);
    for (const SampledToken& token : right) m.sequence->tokens.push_back(token.token);
    blocks_.Computed(*m.sequence, m.num_known() + static_cast<int>(right.size()));
    if (m.scores.count > 0) m.request->num_scored = m.scores.start + m.scores.count;
    if (drawn.empty()) continue;
    m.sequence->tokens.push_back(drawn.back().token);
    if (!m.drafts.empty()) {
      m.sequence->drafts.Verified(static_cast<int>(right.size()), static_cast<int>(m.drafts.size()));
      blocks_.Trim(*m.sequence, m.sequence->num_tokens());
    }
    m.sequence->drafts.Gained(static_cast<int>(drawn.size()));
    drawn_.push_back({m.request, m.sequence, drawn, static_cast<int>(m.drafts.size()), m.source});
  }
  QUIRE_CHECK(rest.empty(), "{} tokens too many", rest.size());
  KeepGuesses(guesses);
  steps_.Retire();
  return drawn_;
}

void StepResults::Branch(Request& request, std::span<const BeamSearch::Step> steps) {
  auto& sequences = request.sequences;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].parent == static_cast<int>(i)) continue;
    const Sequence& parent = sequences[static_cast<size_t>(steps[i].parent)];
    Sequence& child = sequences[i];
    blocks_.Free(child);
    blocks_.Fork(parent, child);
    child.told_first_block = parent.told_first_block;
    child.tokens = parent.tokens;
    running_.Branch(child, parent, steps[i].token);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    Sequence& sequence = sequences[i];
    const bool as_drawn = steps[i].parent == static_cast<int>(i) && sequence.tokens.back() == steps[i].token;
    if (steps[i].parent == static_cast<int>(i) && !as_drawn) running_.Branch(sequence, sequence, steps[i].token);
    sequence.tokens.back() = steps[i].token;
  }
}

}  // namespace quire
