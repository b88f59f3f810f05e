#include "coordinator/core/schedule/step_writer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "coordinator/core/schedule/step_shares.h"

namespace quire {

int64_t StepWriter::BytesToAdd(const Request& request, const Sequence& sequence) {
  constexpr int64_t kRest = 16384;  // bytes for sampling parameters with their lists
  return kRest + static_cast<int64_t>(request.sampling.grammar.text.size()) +
         static_cast<int64_t>(sizeof(TokenId) * sequence.tokens.size() +
                              sizeof(BlockId) * (sequence.blocks.size() + sequence.state.size()));
}

void StepWriter::NoteCached(Request& request, int tokens) {
  if (tokens == 0 || request.num_preemptions > 0) return;
  request.num_cached_tokens += tokens;
  WaitingQueue::ChargePrompt(request, -tokens);
}

void StepWriter::BringFromHost(Request& request, GrowTarget& target, StepDraft& draft) {
  Sequence& sequence = *target.sequence;
  const int count = target.num_tokens - sequence.num_planned() - target.from_host * blocks_.block_size();
  const int free = blocks_.num_free();
  const size_t moves = draft.plan.swap_ins.size();
  const int came = blocks_.BringFromHost(sequence, target.from_host, draft.plan);
  target.num_tokens = sequence.num_planned() + count;
  if (came == 0) return;
  NoteCached(request, came * blocks_.block_size());
  decisions_.Tell(DecisionKind::kBroughtFromHost, request,
                  std::ssize(draft.plan.swap_ins) - static_cast<int64_t>(moves), free);
}

void StepWriter::Emit(Request& request, std::span<GrowTarget> work, StepDraft& draft) {
  for (GrowTarget& target : work) {
    if (target.from_host > 0) BringFromHost(request, target, draft);
  }
  StepShares::ChargeStep(request, work, cost_, draft);
  for (const auto& [sequence, end, from_host, slice, slice_cost] : work) {
    if (slice.count > 0) {
      EmitSlice(request, *sequence, slice, draft);
      draft.budget -= slice_cost;
      continue;
    }
    const int start = sequence->num_planned(), count = end - start;
    for (; sequence->slot && sequence->told_first_block < sequence->first_block; ++sequence->told_first_block) {
      draft.plan.tables.push_back({*sequence->slot, static_cast<uint32_t>(sequence->told_first_block), kNullBlock});
    }
    blocks_.Grow(*sequence, end, draft.plan, draft.reserved_blocks);
    if (!sequence->slot) AddToWorkers(request, *sequence, draft);
    NotePrefixes(*sequence, end, draft);
    const bool draws = end == sequence->length();
    const ScoredRows scores = request.RowsOf(start, count);
    draft.step->members.push_back({&request, sequence, *sequence->slot, start, count, draws, scores});
    sequence->last_step = draft.number;
    draft.plan.position_sum += static_cast<uint64_t>(start);
    draft.budget -= request.StepCost(start, count);
  }
}

/// Puts a slice of the sequence's pass into the step. The first slice takes the blocks of the whole prompt.
void StepWriter::EmitSlice(Request& request, Sequence& sequence, Slice slice, StepDraft& draft) {
  blocks_.Grow(sequence, slice.tokens, draft.plan, draft.reserved_blocks);
  if (!sequence.slot) AddToWorkers(request, sequence, draft);
  slice.slot = *sequence.slot;
  const int count = slice.completes() ? slice.tokens : 0;
  draft.answered_tokens += count;
  draft.step->members.push_back({&request, &sequence, slice.slot, 0, count, slice.completes()});
  draft.step->members.back().slice = slice;
  sequence.num_passed = static_cast<int>(slice.end());
  sequence.last_step = draft.number;
}

void StepWriter::AddToWorkers(const Request& request, Sequence& sequence, StepDraft& draft) {
  running_.TakeSlot(sequence);
  draft.added_bytes += BytesToAdd(request, sequence);
  AddedSequence added{*sequence.slot,  sequence.num_prompt_tokens, sequence.num_computed, sequence.tokens,
                      sequence.blocks, request.sampling,           request.num_scored,    sequence.state};
  added.adapter = request.adapter;
  added.sampling.choice = static_cast<uint32_t>(sequence.choice);
  draft.plan.added.push_back(std::move(added));
}

void StepWriter::NotePrefixes(Sequence& sequence, int end, StepDraft& draft) {
  const int size = blocks_.block_size();
  for (int index = sequence.num_planned() / size; index * size < end; ++index) {
    if (const BlockHash* hash = blocks_.prefixes().HashOfBlock(sequence, index)) draft.step->computing.push_back(*hash);
  }
}

void StepWriter::OrderBatch(StepDraft& draft) {
  const auto key = [](const StepMember& m) {
    return std::tuple(!m.IsDecode(), !m.drafts.empty(), m.slice.count > 0, m.slot);
  };
  auto& members = draft.step->members;
  std::ranges::sort(members, {}, key);
  for (const StepMember& m : members) {
    if (m.slice.count > 0)
      draft.plan.slices.push_back(m.slice);
    else if (!m.drafts.empty())
      draft.plan.drafts.push_back({m.slot, m.drafts});
    else if (m.IsDecode())
      draft.plan.decodes.push_back(m.slot);
    else
      draft.plan.chunks.push_back({m.slot, m.start, m.count});
    if (m.guess > 0) draft.plan.guesses.push_back({m.slot, m.guess});
  }
}

}  // namespace quire
