#include "comm/plan_check.h"

#include "comm/error.h"

namespace quire {

namespace {

void CheckAdded(const AddedSequence& a, const PlanLimits& limits) {
  const auto tokens = static_cast<int64_t>(a.tokens.size()), blocks = static_cast<int64_t>(a.blocks.size());
  const bool lengths = tokens >= 1 && tokens <= limits.max_model_len && a.num_prompt_tokens >= 1 &&
                       a.num_prompt_tokens <= tokens && a.num_computed >= 0 && a.num_computed < tokens &&
                       blocks * limits.block_size >= a.num_computed && (blocks - 1) * limits.block_size < tokens;
  if (!lengths) Fail("plan: slot {}: {} tokens, {} computed, {} blocks", a.slot, tokens, a.num_computed, blocks);
  const auto check_token = [&](TokenId token) {
    if (token < 0 || token >= limits.vocab_size) Fail("plan: slot {}: token {}", a.slot, token);
  };
  for (const TokenId token : a.tokens) check_token(token);
  for (const auto& [token, bias] : a.sampling.logit_bias) check_token(token);
  for (const TokenId token : a.sampling.banned_until_min) check_token(token);
}

}  // namespace

void CheckPlan(const StepPlan& plan, const PlanLimits& limits) {
  const auto check_slot = [&](SlotId slot) {
    if (slot >= static_cast<SlotId>(limits.max_running)) Fail("plan: slot {} of {}", slot, limits.max_running);
  };
  const auto check_block = [&](BlockId block) {
    if (block <= kNullBlock || block >= limits.num_blocks) Fail("plan: block {} of {}", block, limits.num_blocks);
  };
  for (const SlotId slot : plan.released) check_slot(slot);
  for (const auto& a : plan.added) {
    check_slot(a.slot);
    for (const BlockId block : a.blocks) check_block(block);
    CheckAdded(a, limits);
  }
  for (const auto& t : plan.tables) {
    check_slot(t.slot);
    for (const BlockId block : t.blocks) check_block(block);
  }
  for (const auto& [source, destination] : plan.copies) {
    check_block(source);
    check_block(destination);
  }
  int64_t tokens = 0;
  std::vector<bool> in_batch(static_cast<size_t>(limits.max_running), false);
  const auto enter = [&](SlotId slot, int64_t count) {
    check_slot(slot);
    if (in_batch[slot]) Fail("plan: slot {} is in the batch twice", slot);
    in_batch[slot] = true;
    tokens += count;
  };
  for (const SlotId slot : plan.decodes) enter(slot, 1);
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.start < 0 || chunk.count < 1 || chunk.count > limits.max_step_tokens)
      Fail("plan: slot {}: chunk of {}", chunk.slot, chunk.count);
    enter(chunk.slot, chunk.count);
  }
  if (tokens < 1 || tokens > limits.max_step_tokens)
    Fail("plan: {} tokens, at most {}", tokens, limits.max_step_tokens);
}

}  // namespace quire
