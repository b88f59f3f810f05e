#include "coordinator/core/schedule/drafting.h"

#include <algorithm>

namespace quire {

/// True when a step may draw several tokens for this request. Requires a proposer. Requests with beams get no drafts,
/// because beams branch after every token; nor do prompts that are scored or pooled.
bool Drafting::MayHaveDrafts(const Request& request) const {
  const SamplingSpec& sampling = request.sampling;
  return !blocks_.has_states() && request.beams == nullptr && sampling.pooling == Pooling::kNone &&
         sampling.num_prompt_logprobs < 0 && proposer_->MayGuess(request);
}

/// True when the outstanding step has drafts that are not verified yet, or when a sequence may get drafts once its next
/// token is known.
bool Drafting::WaitsForDrafts(const OutstandingStep& outstanding) const {
  if (proposer_ == nullptr) return false;
  if (outstanding.HasDrafts()) return true;
  if (static_cast<int>(outstanding.members.size()) > drafts_.max_batch) return false;
  return std::ranges::any_of(outstanding.members, [&](const StepMember& member) {
    if (!member.draws || member.sequence == nullptr || !MayHaveDrafts(*member.request)) return false;
    const Sequence& s = *member.sequence;
    return s.drafts.IsReady() && s.length() + 1 < s.num_prompt_tokens + member.request->limits.max_tokens;
  });
}

/// Adds drafts to the step's decodes. No step is planned until the drafts are verified, so blocks of rejected drafts
/// are free again before another sequence needs blocks.
void Drafting::AddDrafts(StepDraft& draft) {
  std::vector<StepMember>& members = draft.step->members;
  if (proposer_ == nullptr || draft.ahead || static_cast<int>(members.size()) > drafts_.max_batch) return;
  for (StepMember& member : members) {
    if (!member.IsDecode() || !MayHaveDrafts(*member.request)) continue;
    Sequence& sequence = *member.sequence;
    const int left = sequence.num_prompt_tokens + member.request->limits.max_tokens - (sequence.length() + 1);
    const int most = sequence.drafts.Length(std::min({drafts_.num_tokens, left, draft.budget}), cost_.row());
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
    blocks_.Grow(sequence, target.num_tokens, draft.plan);
    member.count += count;
    draft.budget -= count;
  }
}

void Drafting::Observe(const OutstandingStep& step, double seconds) {
  const auto sequences = static_cast<int>(step.members.size()), known = step.num_known();
  if (known == sequences) cost_.Observe(sequences, step.num_tokens() - known, seconds);
}

}  // namespace quire
