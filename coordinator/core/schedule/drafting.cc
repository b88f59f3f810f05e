#include "coordinator/core/schedule/drafting.h"

#include <algorithm>

namespace quire {

namespace {

/// Returns the number of tokens that the member's sequence may gain after the step's own token.
int TokensLeft(const StepMember& member) {
  const Sequence& sequence = *member.sequence;
  return sequence.num_prompt_tokens + member.request->limits.max_tokens - (sequence.length() + 1);
}

}  // namespace

/// True when a step may sample several tokens for this request: the draft model or the proposer may make drafts for it.
/// Requires a proposer. Requests with beams get no drafts, because beams branch after every token. Requests whose
/// prompts are scored or pooled get none, either.
bool Drafting::MayHaveDrafts(const Request& request) const {
  const SamplingSpec& sampling = request.sampling;
  return request.beams == nullptr && sampling.pooling == Pooling::kNone && sampling.num_prompt_logprobs < 0 &&
         (AsksModel(request) || proposer_->MayGuess(request));
}

/// Returns the time that a sequence loses because its step waits for results, in units of a step's time per sequence.
/// The workers wait for the coordinator, and all stages of a pipeline but one have nothing to compute.
double Drafting::WaitCost() const {
  constexpr double kOneStage = 0.03;
  return kOneStage + limits_.num_stages - 1;
}

/// True when the sequence is not in a pause without drafts (DraftPace) and, if its drafts must save time (MustPay), can
/// pay for one. num_sequences: number of sequences in the step, on which the cost of a draft depends.
bool Drafting::IsReady(const Request& request, const Sequence& sequence, size_t num_sequences) const {
  const DraftPace& pace = sequence.drafts;
  return pace.IsReady() && (!MustPay(request) || pace.Affordable(RowCost(num_sequences), WaitCost()) > 0);
}

bool Drafting::HoldsUp(const std::vector<Request*>& running) const {
  if (proposer_ == nullptr || static_cast<int>(running.size()) > drafts_.max_batch) return false;
  return std::ranges::any_of(running, [&](const Request* request) {
    if (!MayHaveDrafts(*request)) return false;
    const auto is_ready = [&](const Sequence& sequence) {
      return !sequence.finished && IsReady(*request, sequence, running.size());
    };
    return !MustPay(*request) || std::ranges::any_of(request->sequences, is_ready);
  });
}

/// True while the next step must wait because outstanding results verify drafts or bring drafts of the draft model, or
/// because a sequence may get drafts once its next token is known.
bool Drafting::WaitsForDrafts(const OutstandingSteps& outstanding) const {
  if (proposer_ == nullptr) return false;
  for (int i = 0; i < outstanding.size(); ++i) {
    if (WaitsForDrafts(outstanding.at(i))) return true;
  }
  return false;
}

bool Drafting::WaitsForDrafts(const OutstandingStep& outstanding) const {
  if (outstanding.HasDrafts() || outstanding.OrdersGuesses()) return true;
  if (static_cast<int>(outstanding.members.size()) > drafts_.max_batch) return false;
  return std::ranges::any_of(outstanding.members, [&](const StepMember& member) {
    if (!member.draws || member.sequence == nullptr || AsksModel(*member.request) || !MayHaveDrafts(*member.request))
      return false;
    const Sequence& s = *member.sequence;
    return IsReady(*member.request, s, outstanding.members.size()) &&
           s.length() + 1 < s.num_prompt_tokens + member.request->limits.max_tokens;
  });
}

void Drafting::AddDrafts(StepDraft& draft) {
  std::vector<StepMember>& members = draft.step->members;
  if (proposer_ == nullptr || static_cast<int>(members.size()) > drafts_.max_batch) return;
  for (StepMember& member : members) {
    if (!member.IsDecode() || !MayHaveDrafts(*member.request)) continue;
    if (!draft.ahead) AddDrafts(member, draft);
    if (AsksModel(*member.request)) OrderGuess(member, RowCost(members.size()));
  }
}

/// Gives the member its drafts if enough blocks are free. No block is reserved for other sequences: no step is planned
/// until the drafts are verified, and then the blocks of wrong drafts are free again.
void Drafting::AddDrafts(StepMember& member, StepDraft& draft) {
  Sequence& sequence = *member.sequence;
  int most = std::min({drafts_.num_tokens, TokensLeft(member), draft.budget});
  if (blocks_.has_states()) most = std::min(most, blocks_.states().DraftsUpToCheckpoint(sequence));
  if (!Guess(member, most, RowCost(draft.step->members.size()))) return;
  const auto count = static_cast<int>(member.drafts.size());
  const GrowTarget target{&sequence, member.start + 1 + count};
  if (blocks_.BlocksToGrow({&target, 1}) > blocks_.num_free()) {
    member.drafts.clear();
    return;
  }
  blocks_.Extend(sequence, target.num_tokens, draft.plan);
  member.count += count;
  draft.budget -= count;
}

/// Sets the member's drafts, at most `longest`. row_cost: cost of one drafted token (DraftCost::row). Returns false
/// when there are no drafts.
bool Drafting::Guess(StepMember& member, int longest, double row_cost) {
  Sequence& sequence = *member.sequence;
  if (AsksModel(*member.request)) {
    // If guess_at is the sequence's number of tokens, the draft model made the draft for this step. OrderGuess has
    // already weighed the costs.
    if (sequence.guess_at == sequence.num_tokens() && longest > 0) {
      sequence.guess.resize(std::min(sequence.guess.size(), static_cast<size_t>(longest)));
      member.drafts.swap(sequence.guess);
      member.source = drafts_.model_source;
    }
    sequence.guess.clear();
    return !member.drafts.empty();
  }
  DraftPace& pace = sequence.drafts;
  if (MustPay(*member.request)) longest = std::min(longest, pace.Affordable(row_cost, WaitCost()));
  const int most = pace.Length(longest, row_cost);
  if (most <= 0) return false;
  member.source = proposer_->Propose(*member.request, sequence, most, member.drafts);
  pace.Spend(WaitCost() + static_cast<double>(member.drafts.size()) * row_cost);
  if (member.drafts.empty()) pace.FoundNothing();
  return !member.drafts.empty();
}

/// Orders from the draft model a draft of the tokens after this step, if the draft is likely to save time. The draft
/// model can use only tokens whose blocks the sequence still holds, so nothing is ordered once blocks have left the
/// sliding window.
void Drafting::OrderGuess(StepMember& member, double row_cost) {
  Sequence& sequence = *member.sequence;
  const int known = sequence.length() + 1 + static_cast<int>(member.drafts.size());  // if all drafts are right
  // The next step gains one token more than the number of right drafts.
  const int most = std::min({drafts_.num_tokens, drafts_.model_max_len - known, TokensLeft(member) - 1});
  const int gained = sequence.num_pending + 1;
  if (most <= 0 || sequence.first_block > 0 || sequence.drafts.RestsAfter(gained)) return;
  member.guess = sequence.drafts.LengthToOrder(most, row_cost + cost_.guess());
}

void Drafting::Observe(const OutstandingStep& step, double seconds) {
  const auto sequences = static_cast<int>(step.members.size()), known = step.num_known();
  if (known == sequences) cost_.Observe(sequences, step.num_tokens() - known, seconds);
}

void Drafting::ObserveGuesses(const OutstandingStep& step, int tokens, double seconds) {
  const auto sequences = static_cast<int>(step.members.size());
  if (step.num_known() == sequences) cost_.ObserveGuess(sequences, tokens, seconds);
}

}  // namespace quire
