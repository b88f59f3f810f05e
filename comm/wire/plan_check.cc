#include "comm/wire/plan_check.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

namespace {

/// A set of small ids. Adding an id that is in the set throws Error.
class IdSet {
 public:
  IdSet(int32_t size, const char* what) : entered_(static_cast<size_t>(size), false), what_(what) {}
  void Enter(int64_t id) {
    const auto index = static_cast<size_t>(id);
    if (entered_[index]) Fail("plan: {} {} twice", what_, id);
    entered_[index] = true;
  }
  bool Has(int64_t id) const { return entered_[static_cast<size_t>(id)]; }

 private:
  std::vector<bool> entered_;
  const char* what_;
};

void CheckBlock(BlockId block, int32_t num_blocks) {
  if (block <= kNullBlock || block >= num_blocks) Fail("plan: block {} of {}", block, num_blocks);
}

void CheckToken(SlotId slot, TokenId token, const PlanLimits& limits) {
  if (token < 0 || token >= limits.vocab_size) Fail("plan: slot {}: token {}", slot, token);
}

void CheckState(SlotId slot, const std::vector<BlockId>& state, const PlanLimits& limits) {
  if (static_cast<int64_t>(state.size()) != limits.state_blocks)
    Fail("plan: slot {}: a state of {} blocks, not {}", slot, state.size(), limits.state_blocks);
  if (state.empty()) return;
  IdSet distinct(limits.num_blocks, "a state has block");
  for (const BlockId block : state) {
    CheckBlock(block, limits.num_blocks);
    distinct.Enter(block);
  }
}

void CheckAdded(const AddedSequence& a, const PlanLimits& limits) {
  const auto tokens = static_cast<int64_t>(a.tokens.size()), blocks = static_cast<int64_t>(a.blocks.size());
  const bool lengths = tokens >= 1 && tokens <= limits.max_model_len && a.num_prompt_tokens >= 1 &&
                       a.num_prompt_tokens <= tokens && a.num_computed >= 0 && a.num_computed < tokens &&
                       a.num_scored >= 0 && a.num_scored < a.num_prompt_tokens &&
                       blocks * limits.block_size >= a.num_computed && (blocks - 1) * limits.block_size < tokens;
  if (!lengths) Fail("plan: slot {}: {} tokens, {} computed, {} blocks", a.slot, tokens, a.num_computed, blocks);
  bool outside_window = true;  // null blocks are allowed only at the start of a table
  for (const BlockId block : a.blocks) {
    outside_window = outside_window && block == kNullBlock;
    if (!outside_window) CheckBlock(block, limits.num_blocks);
  }
  CheckState(a.slot, a.state, limits);
  const bool listed = a.adapter >= 0 && a.adapter <= limits.num_adapters;
  if (!listed && std::ranges::count(limits.later_adapters, a.adapter) == 0)
    Fail("plan: slot {}: adapter {} of {} listed ones and {} later ones", a.slot, a.adapter, limits.num_adapters,
         limits.later_adapters.size());
  for (const TokenId token : a.tokens) CheckToken(a.slot, token, limits);
  for (const auto& [token, bias] : a.sampling.logit_bias) CheckToken(a.slot, token, limits);
  for (const TokenId token : a.sampling.banned_until_min) CheckToken(a.slot, token, limits);
  for (const TokenId token : a.sampling.allowed_tokens) CheckToken(a.slot, token, limits);
  for (const TokenId token : a.sampling.logprob_tokens) CheckToken(a.slot, token, limits);
  const ThoughtLimit& thoughts = a.sampling.thoughts;
  for (const TokenId token : thoughts.open) CheckToken(a.slot, token, limits);
  for (const TokenId token : thoughts.close) CheckToken(a.slot, token, limits);
  if (thoughts.tokens >= 0 && (thoughts.open.empty() || thoughts.close.empty()))
    Fail("plan: slot {}: a limit of thoughts that nothing opens or closes", a.slot);
  if (PoolsFromTheFirst(a.sampling.pooling) && a.num_computed > 0)
    Fail("plan: slot {}: {} tokens are computed of a prompt that is pooled from its first", a.slot, a.num_computed);
  if (a.sampling.second_text < 0 || a.sampling.second_text > a.num_prompt_tokens)
    Fail("plan: slot {}: a second text from token {} of {} on", a.slot, a.sampling.second_text, a.num_prompt_tokens);
  for (const auto& word : a.sampling.bad_words) {
    if (word.empty()) Fail("plan: slot {}: a bad word without tokens", a.slot);
    for (const TokenId token : word) CheckToken(a.slot, token, limits);
  }
}

/// Throws Error when the swaps or copies of a plan would overwrite a block before it is read, or would write a block
/// twice. Swap-outs run first, then swap-ins, then copies.
void CheckMoves(const StepPlan& plan, const PlanLimits& limits) {
  if (plan.swap_outs.empty() && plan.swap_ins.empty() && plan.copies.empty()) return;
  IdSet written(limits.num_blocks, "writes device block"), host_written(limits.num_host_blocks, "writes host block");
  for (const auto& [device, host] : plan.swap_outs) {
    CheckBlock(device, limits.num_blocks);
    CheckBlock(host, limits.num_host_blocks);
    host_written.Enter(host);
  }
  for (const auto& [host, device] : plan.swap_ins) {
    CheckBlock(device, limits.num_blocks);
    CheckBlock(host, limits.num_host_blocks);
    if (host_written.Has(host)) Fail("plan: host block {} is overwritten before it comes back", host);
    written.Enter(device);
  }
  IdSet copied(limits.num_blocks, "copies into device block");
  for (const auto& [source, destination] : plan.copies) {
    CheckBlock(source, limits.num_blocks);
    CheckBlock(destination, limits.num_blocks);
    if (copied.Has(source)) Fail("plan: block {} is overwritten before it is copied", source);
    written.Enter(destination);
    copied.Enter(destination);
  }
}

/// Checks plan.guesses, the plan's orders to the draft model. The orders must name decodes and drafts of the plan, each
/// at most once and in order, and ask for 1 to max_guess tokens.
void CheckGuesses(const StepPlan& plan, const PlanLimits& limits) {
  auto decode = plan.decodes.begin();
  auto draft = plan.drafts.begin();
  for (const auto& [slot, count] : plan.guesses) {
    if (count < 1 || count > limits.max_guess)
      Fail("plan: slot {}: a guess of {} tokens, at most {}", slot, count, limits.max_guess);
    decode = std::find(decode, plan.decodes.end(), slot);
    if (decode != plan.decodes.end()) {
      ++decode;
      continue;
    }
    draft = std::ranges::find(draft, plan.drafts.end(), slot, &Draft::slot);
    if (draft == plan.drafts.end())
      Fail("plan: slot {}: a guess out of order, or of a sequence that does not decode", slot);
    ++draft;
  }
}

void CheckSlice(const Slice& slice, const PlanLimits& limits) {
  if (limits.pass_stages == 0 || slice.stages != limits.pass_stages)
    Fail("plan: slot {}: a pass of {} stages, not {}", slice.slot, slice.stages, limits.pass_stages);
  if (slice.tokens < 1 || slice.tokens > limits.max_model_len)
    Fail("plan: slot {}: a pass over {} tokens", slice.slot, slice.tokens);
  if (slice.begin < 0 || slice.count < 1 || slice.end() > slice.whole())
    Fail("plan: slot {}: {} units of a pass of {} from {} on", slice.slot, slice.count, slice.whole(), slice.begin);
}

}  // namespace

void CheckPlan(const StepPlan& plan, const PlanLimits& limits) {
  const auto check_slot = [&](SlotId slot) {
    if (slot >= static_cast<SlotId>(limits.max_running)) Fail("plan: slot {} of {}", slot, limits.max_running);
  };
  for (const SlotId slot : plan.released) check_slot(slot);
  for (const auto& a : plan.added) {
    check_slot(a.slot);
    CheckAdded(a, limits);
  }
  for (const auto& [slot, parent, token] : plan.branches) {
    check_slot(slot);
    check_slot(parent);
    CheckToken(slot, token, limits);
  }
  for (const auto& [slot, index, block] : plan.tables) {
    check_slot(slot);
    if (block != kNullBlock) CheckBlock(block, limits.num_blocks);
    if (int64_t{index} * limits.block_size >= limits.max_model_len) Fail("plan: slot {}: table entry {}", slot, index);
  }
  for (const auto& [slot, state] : plan.states) {
    check_slot(slot);
    CheckState(slot, state, limits);
  }
  CheckMoves(plan, limits);
  int64_t tokens = 0;
  IdSet in_batch(limits.max_running, "batch has slot");
  const auto enter = [&](SlotId slot, int64_t count) {
    check_slot(slot);
    in_batch.Enter(slot);
    tokens += count;
  };
  for (const SlotId slot : plan.decodes) enter(slot, 1);
  int64_t draft_rows = 0;
  for (const Draft& draft : plan.drafts) {
    if (draft.tokens.empty()) Fail("plan: slot {}: a draft without tokens", draft.slot);
    draft_rows += 1 + static_cast<int64_t>(draft.tokens.size());
    enter(draft.slot, 1 + static_cast<int64_t>(draft.tokens.size()));
    for (const TokenId token : draft.tokens) CheckToken(draft.slot, token, limits);
  }
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.start < 0 || chunk.count < 1 || chunk.count > limits.max_step_tokens)
      Fail("plan: slot {}: chunk of {}", chunk.slot, chunk.count);
    enter(chunk.slot, chunk.count);
  }
  for (const Slice& slice : plan.slices) {
    enter(slice.slot, 0);
    CheckSlice(slice, limits);
  }
  if ((tokens < 1 && plan.slices.empty()) || tokens > limits.max_step_tokens)
    Fail("plan: {} tokens, at most {}", tokens, limits.max_step_tokens);
  if (limits.state_blocks > 0 && draft_rows > limits.max_draft_rows)
    Fail("plan: {} rows with drafts, at most {}", draft_rows, limits.max_draft_rows);
  CheckGuesses(plan, limits);
}

}  // namespace quire
