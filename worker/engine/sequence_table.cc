#include "worker/engine/sequence_table.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

SequenceTable::SequenceTable(int max_running, int block_size, int max_model_len)
    : slots_(static_cast<size_t>(max_running)), block_size_(block_size), max_model_len_(max_model_len) {}

SequenceState& SequenceTable::Known(SlotId slot) {
  if (slot >= slots_.size() || !slots_[slot]) Fail("plan: slot {} is not in use", slot);
  return *slots_[slot];
}

BatchMember SequenceTable::Member(SlotId slot, int start, int count) {
  const SequenceState& s = Known(slot);
  if (s.unverified) Fail("plan: slot {} computes, but its drafts are not verified", slot);
  if (s.num_passed > 0 && start == 0) Fail("plan: slot {} is computed at once, but its pass has begun", slot);
  const auto known = static_cast<int>(s.tokens.size());
  const auto held = static_cast<int64_t>(s.blocks.size()) * block_size_;
  const int64_t end = int64_t{start} + count;
  if (start != s.num_computed || end > known || end > held || end > max_model_len_) {
    Fail("plan: slot {} computes {}..{}, but {} of {} tokens are computed and its blocks hold {}", slot, start, end,
         s.num_computed, known, held);
  }
  for (int index = start / block_size_; index * block_size_ < start + count; ++index) {
    if (s.blocks[static_cast<size_t>(index)] == kNullBlock) Fail("plan: slot {} writes into the null block", slot);
  }
  return {slot, start, count, start + count == known,
          RowsToScore(s.sampling, s.num_prompt_tokens, s.num_scored, start, count)};
}

BatchMember SequenceTable::Member(const Draft& draft) {
  SequenceState& s = Known(draft.slot);
  if (s.tokens.back() == kPendingToken) Fail("plan: slot {} has drafts after an unknown token", draft.slot);
  const int start = s.num_computed, num_drafts = static_cast<int>(draft.tokens.size());
  if (start + 1 != static_cast<int>(s.tokens.size())) Fail("plan: slot {} has drafts and is no decode", draft.slot);
  s.tokens.insert(s.tokens.end(), draft.tokens.begin(), draft.tokens.end());
  BatchMember member = Member(draft.slot, start, 1 + num_drafts);
  member.num_drafts = num_drafts;
  s.unverified = true;
  return member;
}

/// Checks a slice against the slices before it. The sequence's blocks must have room for the whole text.
BatchMember SequenceTable::Member(const Slice& slice) {
  const SequenceState& s = Known(slice.slot);
  const auto known = static_cast<int>(s.tokens.size());
  const auto held = static_cast<int64_t>(s.blocks.size()) * block_size_;
  if (slice.begin != s.num_passed || s.num_computed != 0 || slice.tokens != known || known != s.num_prompt_tokens ||
      known > held) {
    Fail(
        "plan: slot {} passes over {} tokens from {} on, but {} units are done, {} of {} tokens are computed, and its "
        "blocks hold {}",
        slice.slot, slice.tokens, slice.begin, s.num_passed, s.num_computed, known, held);
  }
  for (const BlockId block : s.blocks) {
    if (block == kNullBlock) Fail("plan: slot {} writes into the null block", slice.slot);
  }
  BatchMember member{slice.slot, 0, slice.completes() ? known : 0, slice.completes()};
  member.slice = slice;
  return member;
}

void SequenceTable::Branch(const quire::Branch& branch) {
  const SequenceState& parent = Known(branch.parent);
  if (parent.unverified) Fail("plan: slot {} branches, but its drafts are not verified", branch.parent);
  if (parent.num_computed + 1 != static_cast<int>(parent.tokens.size()))
    Fail("plan: slot {} branches, but has not just drawn", branch.parent);
  if (branch.slot != branch.parent) slots_[branch.slot] = parent;
  slots_[branch.slot]->tokens.back() = branch.token;
  slots_[branch.slot]->serial = ++last_serial_;
}

void SequenceTable::Edit(const TableEdit& edit) {
  auto& blocks = Known(edit.slot).blocks;
  if (edit.index > blocks.size())
    Fail("plan: slot {}: entry {} of a table of {}", edit.slot, edit.index, blocks.size());
  if (edit.index == blocks.size())
    blocks.push_back(edit.block);
  else
    blocks[edit.index] = edit.block;
}

std::vector<BatchMember> SequenceTable::Apply(const StepPlan& plan) {
  for (const SlotId slot : plan.released) {
    Known(slot);
    slots_[slot].reset();
  }
  for (const AddedSequence& a : plan.added) {
    if (slots_[a.slot]) Fail("plan: slot {} is in use", a.slot);
    SequenceState added{a.tokens, a.num_prompt_tokens, a.num_computed, a.blocks, a.sampling, ++last_serial_,
                        nullptr,  a.num_scored,        a.state,        a.adapter};
    if (a.sampling.grammar) {
      if (!constrain) Fail("plan: slot {} has a grammar, but this worker was told no vocabulary", a.slot);
      const auto has_grammar = [](const auto& slot) { return slot && slot->constraint != nullptr; };
      const auto others = static_cast<size_t>(std::ranges::count_if(slots_, has_grammar));
      added.constraint =
          constrain(a.sampling.grammar, a.tokens.size() - static_cast<size_t>(a.num_prompt_tokens), others + 1);
    }
    slots_[a.slot] = std::move(added);
  }
  for (const quire::Branch& branch : plan.branches) Branch(branch);
  for (const TableEdit& edit : plan.tables) Edit(edit);
  for (const StateTable& state : plan.states) Known(state.slot).state = state.blocks;
  std::vector<BatchMember> batch;
  uint64_t position_sum = 0;
  for (const SlotId slot : plan.decodes) batch.push_back(Member(slot, Known(slot).num_computed, 1));
  for (const BatchMember& member : batch) {
    if (!member.draws) Fail("plan: slot {} is no decode", member.slot);
  }
  for (const Draft& draft : plan.drafts) batch.push_back(Member(draft));
  for (const Chunk& chunk : plan.chunks) batch.push_back(Member(chunk.slot, chunk.start, chunk.count));
  for (const Slice& slice : plan.slices) batch.push_back(Member(slice));
  for (const BatchMember& member : batch) position_sum += static_cast<uint64_t>(member.start);
  if (position_sum != plan.position_sum) Fail("plan: positions add up to {}, not {}", position_sum, plan.position_sum);
  return batch;
}

std::vector<PendingDraw> SequenceTable::Advance(const std::vector<BatchMember>& batch) {
  std::vector<PendingDraw> draws;
  for (const BatchMember& member : batch) {
    SequenceState& s = *slots_[member.slot];
    s.num_computed += member.count;
    s.num_passed += member.slice.count;
    if (!member.draws) continue;
    const auto rows = static_cast<size_t>(member.num_rows());
    draws.push_back({member.slot, s.serial, s.tokens.size() + 1 - rows, rows});
    s.tokens.push_back(kPendingToken);
  }
  return draws;
}

void SequenceTable::Resolve(const std::vector<PendingDraw>& draws, const std::vector<SampledToken>& tokens) {
  std::span<const SampledToken> rest(tokens);
  for (const PendingDraw& draw : draws) {
    const std::span<const SampledToken> drawn = TakeDrawn(rest, draw.slot, draw.max_tokens);
    QUIRE_CHECK(!drawn.empty(), "slot {} draws, and {} tokens are left for other slots", draw.slot, rest.size());
    const auto& s = slots_[draw.slot];
    if (!s || s->serial != draw.serial) continue;
    if (draw.max_tokens > 1)
      Verified(draw, drawn);
    else if (s->tokens[draw.position] == kPendingToken)
      slots_[draw.slot]->tokens[draw.position] = drawn.front().token;
  }
  QUIRE_CHECK(rest.empty(), "{} tokens too many for {} draws", rest.size(), draws.size());
}

void SequenceTable::Verified(const PendingDraw& draw, std::span<const SampledToken> tokens) {
  SequenceState& s = *slots_[draw.slot];
  s.tokens.resize(draw.position);
  for (const SampledToken& token : tokens) s.tokens.push_back(token.token);
  s.num_computed = static_cast<int>(s.tokens.size()) - 1;
  const auto size = static_cast<size_t>(block_size_);
  s.blocks.resize(std::min(s.blocks.size(), (s.tokens.size() + size - 1) / size));
  s.unverified = false;
}

void SequenceTable::KeepVerified(const std::vector<BatchMember>& batch, std::vector<SampledToken>& drawn) const {
  if (std::ranges::none_of(batch, [](const BatchMember& member) { return member.num_drafts > 0; })) return;
  size_t row = 0, kept = 0;
  for (const BatchMember& member : batch) {
    const auto rows = static_cast<size_t>(member.num_rows());
    if (rows == 0) continue;
    const std::vector<TokenId>& tokens = at(member.slot).tokens;
    const auto guess = std::span(tokens).subspan(static_cast<size_t>(member.start + member.count) - rows + 1, rows - 1);
    const size_t verified = CountVerified(std::span(drawn).subspan(row, rows), guess);
    for (size_t i = 0; i < verified; ++i, ++kept) {
      if (kept != row + i) drawn[kept] = std::move(drawn[row + i]);
    }
    row += rows;
  }
  drawn.resize(kept);
}

int SequenceTable::num_sequences() const {
  int count = 0;
  for (const auto& slot : slots_) count += slot.has_value();
  return count;
}

}  // namespace quire
