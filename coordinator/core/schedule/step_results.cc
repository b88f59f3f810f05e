// Committing the result of the oldest outstanding step.
#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/core/schedule/scheduler.h"

namespace quire {

bool Scheduler::Fits(const std::vector<SampledToken>& tokens) const {
  size_t next = 0;
  for (const StepMember& m : steps_.at(0).members) {
    if (!m.draws) continue;
    if (next == tokens.size() || tokens[next].slot != m.slot) return false;
    const SampledToken& token = tokens[next++];
    if (m.request == nullptr) continue;
    if (m.request->beams != nullptr && token.top.empty()) return false;
    const bool pools = m.request->sampling.pooling != Pooling::kNone && m.start < m.request->num_prompt_tokens();
    if (pools != !token.pooled.empty()) return false;
  }
  return next == tokens.size();
}

bool Scheduler::Fits(const std::vector<PromptScores>& scores) const {
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

std::optional<RequestId> Scheduler::RequestOf(SlotId slot) const {
  const auto& members = steps_.at(0).members;
  const auto member = std::ranges::find(members, slot, &StepMember::slot);
  if (member == members.end() || member->request == nullptr) return std::nullopt;
  return member->request->id;
}

void Scheduler::ObserveStep(double seconds, double swap_seconds) {
  const OutstandingStep& step = steps_.oldest();
  cost_.Observe(step.cost(), step.mean_context(), step.num_moved_blocks, seconds, swap_seconds);
  company_left_ = std::max(0.0, company_left_ - seconds);
}

std::span<const Scheduler::Drawn> Scheduler::Commit(const std::vector<SampledToken>& tokens) {
  drawn_.clear();
  size_t next = 0;
  for (const StepMember& m : steps_.oldest().members) {
    const SampledToken* token = nullptr;
    if (m.draws) {
      QUIRE_CHECK(next < tokens.size() && tokens[next].slot == m.slot, "result {} of {} is for another slot", next,
                  tokens.size());
      token = &tokens[next++];
    }
    if (m.sequence == nullptr) continue;
    blocks_.Computed(*m.sequence, m.count);
    if (m.scores.count > 0) m.request->num_scored = m.scores.start + m.scores.count;
    if (token == nullptr) continue;
    m.sequence->tokens.push_back(token->token);
    WaitingQueue::ChargeGenerated(*m.request, 1);
    drawn_.push_back({m.request, m.sequence, token});
  }
  QUIRE_CHECK(next == tokens.size(), "{} tokens for {} draws", tokens.size(), next);
  steps_.Retire();
  return drawn_;
}

void Scheduler::Branch(Request& request, std::span<const BeamSearch::Step> steps) {
  auto& sequences = request.sequences;
  const auto note = [&](const Sequence& child, const Sequence& parent, TokenId token) {
    branches_.push_back({*child.slot, *parent.slot, token});
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].parent == static_cast<int>(i)) continue;
    const Sequence& parent = sequences[static_cast<size_t>(steps[i].parent)];
    Sequence& child = sequences[i];
    blocks_.Free(child);
    blocks_.Fork(parent, child);
    child.told_first_block = parent.told_first_block;
    child.tokens = parent.tokens;
    note(child, parent, steps[i].token);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    Sequence& sequence = sequences[i];
    const bool as_drawn = steps[i].parent == static_cast<int>(i) && sequence.tokens.back() == steps[i].token;
    if (steps[i].parent == static_cast<int>(i) && !as_drawn) note(sequence, sequence, steps[i].token);
    sequence.tokens.back() = steps[i].token;
  }
}

}  // namespace quire
