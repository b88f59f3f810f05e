// The half of Scheduler that turns a chosen request into work of the step being made, and that commits the step.
#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/scheduler.h"

namespace quire {

namespace {

// Sequences sent whole in one plan; a frame holds 64 MiB. The first is always sent, whatever its size.
constexpr int64_t kMaxAddedBytes = 16 << 20;
bool FitsFrame(int64_t added, int64_t more) { return added == 0 || added + more <= kMaxAddedBytes; }

}  // namespace

int64_t Scheduler::BytesToAdd(const Request& request, const Sequence& sequence) {
  constexpr int64_t kRest = 16384;  // sampling, with its lists
  return kRest + static_cast<int64_t>(request.sampling.grammar.text.size()) +
         static_cast<int64_t>(sizeof(TokenId) * sequence.tokens.size() + sizeof(BlockId) * sequence.blocks.size());
}

/// Fills work_ with what the request computes in this step; empty when it must wait for others, or for results.
void Scheduler::FindWork(Request& request, int budget) {
  work_.clear();
  int64_t added = added_bytes_;
  for (Sequence& sequence : request.sequences) blocks_.LeaveWindow(sequence);
  const auto draws = [](const Sequence& sequence) { return sequence.num_pending > 0; };
  if (request.beams != nullptr && std::ranges::any_of(request.sequences, draws)) return;
  if (!request.forked && !ShareLeadersPrefix(request, budget)) return;
  for (Sequence& sequence : request.sequences) {
    // Its last token may be drawn already, though not known; that one is never computed.
    const bool complete = sequence.length() == sequence.num_prompt_tokens + request.limits.max_tokens;
    if (sequence.finished || complete || (in_company_ && sequence.sits_out)) continue;
    Attach(request, sequence, sequence.num_tokens());
    const int start = sequence.num_planned();
    const int count = request.TokensFor(start, sequence.length() - start, budget);
    if (count <= 0 || WaitsForPrefix(request, sequence)) continue;
    if (!sequence.slot) {
      const int64_t bytes = BytesToAdd(request, sequence);
      if (!FitsFrame(added, bytes) && request.beams == nullptr) continue;
      added += bytes;
    }
    work_.push_back({&sequence, count});
    budget -= request.StepCost(start, count);
  }
  if (request.beams != nullptr) DrawTogether(request);
}

/// The first live sequence computes the prompt but for its last token; then all share it and each computes the rest.
/// False while that is not done: the leader's part, as far as it is not in flight, is in work_ then.
bool Scheduler::ShareLeadersPrefix(Request& request, int budget) {
  auto live = request.sequences.begin();
  while (live->finished) ++live;
  Sequence& leader = *live;
  const int shared = request.sequences.size() > 1 ? request.num_prompt_tokens() - 1 : 0;
  Attach(request, leader, shared);
  if (leader.num_computed < shared) {
    const bool fits = leader.slot || FitsFrame(added_bytes_, BytesToAdd(request, leader));
    const int count = request.TokensFor(leader.num_planned(), shared - leader.num_planned(), budget);
    if (count > 0 && fits && !WaitsForPrefix(request, leader)) work_.push_back({&leader, count});
    return false;
  }
  for (++live; live != request.sequences.end(); ++live) {
    if (!live->finished) blocks_.Fork(leader, *live);
  }
  request.forked = true;
  return true;
}

/// Before its first step a sequence takes what the cache has, up to the first row that it must score.
void Scheduler::Attach(Request& request, Sequence& sequence, int max_tokens) {
  if (sequence.slot) return;
  const int gained = blocks_.prefixes().Attach(sequence, std::min(max_tokens, request.NumCacheable()));
  if (gained > 0) blocks_.LeaveWindow(sequence);
  if (gained == 0 || request.num_preemptions > 0) return;
  request.num_cached_tokens += gained;
  WaitingQueue::ChargePrompt(request, -gained);
}

/// Beams branch on what all of them draw, so they draw in the same step or not at all.
void Scheduler::DrawTogether(Request& request) {
  size_t live = 0, drawing = 0;
  for (const Sequence& sequence : request.sequences) live += !sequence.finished;
  const auto draws = [](const Work& work) {
    return work.sequence->num_planned() + work.count == work.sequence->length();
  };
  for (const Work& work : work_) drawing += draws(work);
  if (drawing == live) return;
  for (Work& work : work_) work.count -= draws(work);
  std::erase_if(work_, [](const Work& work) { return work.count == 0; });
}

/// True when a request that comes before is computing the very block that this sequence needs next: its result will be
/// shared after the step.
bool Scheduler::WaitsForPrefix(Request& request, Sequence& sequence) {
  const int size = blocks_.block_size(), index = sequence.num_computed / size;
  if (sequence.slot || sequence.num_computed % size != 0) return false;
  const int most = std::min(sequence.num_tokens() - 1, request.NumCacheable());
  if (index != sequence.contents.num_named || (index + 1) * size > most) return false;
  const BlockHash* hash = blocks_.prefixes().HashOfBlock(sequence, index);
  if (hash == nullptr || !steps_.Compute(*hash)) return false;
  if (!std::exchange(request.told_to_wait, true))
    Tell(DecisionKind::kWaitsForPrefix, request, sequence.num_computed, 0);
  return true;
}

int Scheduler::BlocksForWork() {
  targets_.clear();
  for (const Work& work : work_) targets_.push_back({work.sequence, work.sequence->num_planned() + work.count});
  return blocks_.BlocksToGrow(targets_);
}

void Scheduler::AddToWorkers(const Request& request, Sequence& sequence) {
  QUIRE_CHECK(!free_slots_.empty(), "no free slot");
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  sequence.told_first_block = sequence.first_block;
  added_bytes_ += BytesToAdd(request, sequence);
  AddedSequence added{*sequence.slot,  sequence.num_prompt_tokens, sequence.num_computed, sequence.tokens,
                      sequence.blocks, request.sampling,           request.num_scored};
  added.sampling.choice = static_cast<uint32_t>(sequence.choice);
  plan_.added.push_back(std::move(added));
}

void Scheduler::NotePrefixes(Sequence& sequence, int end) {
  const int size = blocks_.block_size();
  for (int index = sequence.num_planned() / size; index * size < end; ++index) {
    if (const BlockHash* hash = blocks_.prefixes().HashOfBlock(sequence, index))
      steps_.making().computing.push_back(*hash);
  }
}

/// Puts work_ into the plan.
void Scheduler::Emit(Request& request, int& budget) {
  if (in_company_) ChargeStep(request);
  for (const auto& [sequence, count] : work_) {
    const int start = sequence->num_planned();
    for (; sequence->slot && sequence->told_first_block < sequence->first_block; ++sequence->told_first_block) {
      plan_.tables.push_back({*sequence->slot, static_cast<uint32_t>(sequence->told_first_block), kNullBlock});
    }
    blocks_.Grow(*sequence, start + count, plan_);
    if (!sequence->slot) AddToWorkers(request, *sequence);
    NotePrefixes(*sequence, start + count);
    const bool draws = start + count == sequence->length();
    const ScoredRows scores = request.RowsOf(start, count);
    steps_.making().members.push_back({&request, sequence, *sequence->slot, start, count, draws, scores});
    sequence->last_step = num_steps_;
    plan_.position_sum += static_cast<uint64_t>(start);
    budget -= request.StepCost(start, count);
  }
}

void Scheduler::OrderBatch() {
  // Decodes, then chunks, both by slot.
  const auto is_decode = [](const StepMember& m) { return m.draws && m.count == 1; };
  auto& members = steps_.making().members;
  std::ranges::sort(members, [&](const StepMember& a, const StepMember& b) {
    return is_decode(a) != is_decode(b) ? is_decode(a) : a.slot < b.slot;
  });
  for (const StepMember& m : members) {
    if (is_decode(m))
      plan_.decodes.push_back(m.slot);
    else
      plan_.chunks.push_back({m.slot, m.start, m.count});
  }
}

bool Scheduler::Fits(const std::vector<SampledToken>& tokens) const {
  size_t next = 0;
  for (const StepMember& m : steps_.at(0).members) {
    if (!m.draws) continue;
    if (next == tokens.size() || tokens[next].slot != m.slot) return false;
    const SampledToken& token = tokens[next++];
    if (m.request != nullptr && m.request->beams != nullptr && token.top.empty()) return false;
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
