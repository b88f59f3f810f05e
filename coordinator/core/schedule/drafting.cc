// Drafts: guesses of further tokens for sequences that decode (speculative decoding).
#include <algorithm>

#include "coordinator/core/schedule/scheduler.h"

namespace quire {

/// True when steps may draw several tokens of this request at once. Needs a proposer. Beams branch after every token.
/// Scored and pooled rows belong to prompts.
bool Scheduler::MayHaveDrafts(const Request& request) const {
  const SamplingSpec& sampling = request.sampling;
  return !blocks_.has_states() && request.beams == nullptr && sampling.pooling == Pooling::kNone &&
         sampling.num_prompt_logprobs < 0 && proposer_->MayGuess(request);
}

/// True when the next step must not be planned ahead: drafts are not verified yet, or a sequence may get drafts once
/// its next token is known.
bool Scheduler::WaitsForDrafts() const {
  if (proposer_ == nullptr) return false;
  if (steps_.at(0).HasDrafts()) return true;
  if (static_cast<int>(steps_.at(0).members.size()) > drafts_.max_batch) return false;
  return std::ranges::any_of(steps_.at(0).members, [&](const StepMember& member) {
    if (!member.draws || member.sequence == nullptr || !MayHaveDrafts(*member.request)) return false;
    const Sequence& s = *member.sequence;
    return s.drafts.IsReady() && s.length() + 1 < s.num_prompt_tokens + member.request->limits.max_tokens;
  });
}

/// Gives the decodes of the step being planned their drafts, from what the step's budget and the pool have left. No
/// step is planned until the drafts are verified, so their blocks are free again before others need them.
void Scheduler::AddDrafts(StepDraft& draft) {
  std::vector<StepMember>& members = steps_.making().members;
  if (proposer_ == nullptr || ahead() || static_cast<int>(members.size()) > drafts_.max_batch) return;
  for (StepMember& member : members) {
    if (!IsDecode(member) || !MayHaveDrafts(*member.request)) continue;
    Sequence& sequence = *member.sequence;
    const int left = sequence.num_prompt_tokens + member.request->limits.max_tokens - (sequence.length() + 1);
    const int most = sequence.drafts.Length(std::min({drafts_.num_tokens, left, draft.budget}), draft_cost_.row());
    if (most <= 0) continue;
    member.source = proposer_->Propose(*member.request, sequence, most, member.drafts);
    if (member.drafts.empty()) {
      sequence.drafts.FoundNothing();
      continue;
    }
    const auto count = static_cast<int>(member.drafts.size());
    const GrowTarget target{&sequence, member.start + 1 + count};
    if (blocks_.BlocksToGrow({&target, 1}) > blocks_.num_free()) {
      member.drafts.clear();
      continue;
    }
    blocks_.Grow(sequence, target.num_tokens, plan_);
    member.count += count;
    draft.budget -= count;
  }
}

}  // namespace quire
