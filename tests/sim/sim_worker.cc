#include "tests/sim/sim_worker.h"

#include <algorithm>

#include "comm/base/error.h"
#include "worker/engine/remaining_rows.h"

namespace quire::sim {

namespace {

/// Returns the context values of a sequence: entry p depends on tokens 0 to p.
std::vector<KvValue> ContextOf(const SequenceState& sequence) {
  std::vector<KvValue> values;
  KvValue value = FirstKv(sequence.sampling.seed, sequence.adapter);
  for (const TokenId token : sequence.tokens) values.push_back(value = NextKv(value, token));
  return values;
}

}  // namespace

SimWorker::SimWorker(const PlanLimits& limits, int sliding_window, int64_t max_kept_rows)
    : limits_(limits),
      window_(sliding_window),
      max_kept_rows_(max_kept_rows),
      table_(limits.max_running, limits.block_size, limits.max_model_len),
      device_(static_cast<size_t>(limits.num_blocks * limits.block_size), 0xdead),
      host_(static_cast<size_t>(limits.num_host_blocks * limits.block_size), 0xdead) {}

void SimWorker::Move(const std::vector<BlockCopyPair>& pairs, const std::vector<KvValue>& from,
                     std::vector<KvValue>& to) const {
  const auto size = static_cast<size_t>(limits_.block_size);
  for (const auto& [source, destination] : pairs) {
    for (size_t i = 0; i < size; ++i) {
      to[static_cast<size_t>(destination) * size + i] = from[static_cast<size_t>(source) * size + i];
    }
  }
}

std::vector<KvValue> SimWorker::Read(BlockId block) const {
  const auto begin = device_.begin() + static_cast<ptrdiff_t>(block) * limits_.block_size;
  return {begin, begin + limits_.block_size};
}

std::vector<KvValue> SimWorker::ReadHost(BlockId block) const {
  const auto begin = host_.begin() + static_cast<ptrdiff_t>(block) * limits_.block_size;
  return {begin, begin + limits_.block_size};
}

void SimWorker::Fill(BlockId block, const std::vector<KvValue>& values) {
  std::ranges::copy(values, device_.begin() + static_cast<ptrdiff_t>(block) * limits_.block_size);
}

void SimWorker::Write(const BatchMember& member) {
  const SequenceState& sequence = table_.at(member.slot);
  const std::vector<KvValue> values = ContextOf(sequence);
  for (int p = member.start; p < member.start + member.count; ++p) {
    const BlockId block = sequence.blocks[static_cast<size_t>(p / limits_.block_size)];
    Slot(block, p % limits_.block_size) = values[static_cast<size_t>(p)];
  }
}

void SimWorker::CheckContext(const BatchMember& member) {
  const SequenceState& sequence = table_.at(member.slot);
  const std::vector<KvValue> values = ContextOf(sequence);
  const int first = window_ > 0 ? std::max(0, member.start - window_ + 1) : 0;
  for (int p = first; p < member.start + member.count; ++p) {
    const BlockId block = sequence.blocks[static_cast<size_t>(p / limits_.block_size)];
    if (block == kNullBlock) throw Violation{fmt::format("slot {}: position {} is in the null block", member.slot, p)};
    if (Slot(block, p % limits_.block_size) != values[static_cast<size_t>(p)]) {
      throw Violation{fmt::format("slot {}: block {} does not hold position {} of {} tokens", member.slot, block, p,
                                  sequence.tokens.size())};
    }
  }
}

/// Returns the member with all tokens of its prompt in place of a slice.
BatchMember SimWorker::TextOf(const BatchMember& member) const {
  if (!member.in_slices()) return member;
  return {member.slot, 0, member.slice.tokens, member.draws};
}

/// Checks that the unfinished passes in slices together have no more tokens than the rows that workers may store.
void SimWorker::CheckKeptRows() const {
  int64_t rows = 0;
  for (SlotId slot = 0; slot < static_cast<SlotId>(limits_.max_running); ++slot) {
    if (!table_.Has(slot)) continue;
    const SequenceState& sequence = table_.at(slot);
    rows += sequence.num_passed > 0 && sequence.num_computed == 0 ? sequence.num_prompt_tokens : 0;
  }
  if (rows > max_kept_rows_) throw Violation{fmt::format("{} rows are kept, at most {}", rows, max_kept_rows_)};
}

/// Checks that an encoder computes all tokens of a prompt in one step, or the prompt in slices of its pass, because the
/// first token sees the last token.
void SimWorker::CheckWhole(const BatchMember& member) const {
  const int tokens = table_.at(member.slot).num_prompt_tokens;
  if (limits_.pass_stages == 0 || member.in_slices() || (member.start == 0 && member.count == tokens)) return;
  throw Violation{fmt::format("slot {}: tokens from {} on, {} of them, are computed of a whole prompt of {}",
                              member.slot, member.start, member.count, tokens)};
}

/// Checks the state after num_tokens tokens. Before the first token the state is zeros, whatever its blocks contain.
void SimWorker::CheckState(const BatchMember& member, int num_tokens) {
  const SequenceState& sequence = table_.at(member.slot);
  if (num_tokens == 0) return;
  const KvValue context = ContextOf(sequence)[static_cast<size_t>(num_tokens) - 1];
  const int size = limits_.block_size;
  for (size_t word = 0; word < sequence.state.size() * static_cast<size_t>(size); ++word) {
    const BlockId block = sequence.state[word / static_cast<size_t>(size)];
    if (Slot(block, static_cast<int>(word % static_cast<size_t>(size))) == StateWord(context, word)) continue;
    throw Violation{fmt::format("slot {}: block {} does not hold the state after {} of {} tokens", member.slot, block,
                                num_tokens, sequence.tokens.size())};
  }
}

void SimWorker::WriteState(const BatchMember& member, int num_tokens) {
  const SequenceState& sequence = table_.at(member.slot);
  if (num_tokens == 0) return;
  const KvValue context = ContextOf(sequence)[static_cast<size_t>(num_tokens) - 1];
  const auto size = static_cast<size_t>(limits_.block_size);
  for (size_t word = 0; word < sequence.state.size() * size; ++word)
    Slot(sequence.state[word / size], static_cast<int>(word % size)) = StateWord(context, word);
}

void SimWorker::DrawFor(const BatchMember& member, std::vector<SampledToken>& drawn) const {
  const SequenceState& sequence = table_.at(member.slot);
  const std::vector<KvValue> contexts = ContextOf(sequence);
  for (int after = member.num_rows() - 1; after >= 0; --after) {
    const auto length = static_cast<size_t>(member.start + member.count - after);
    const KvValue context = contexts[length - 1];
    SampledToken& token =
        drawn.emplace_back(SampledToken{member.slot, Draw(context, sequence.sampling, length), 0, {}});
    if (sequence.sampling.num_logprobs <= 0) continue;
    token.top = BestTokens(context, sequence.sampling.num_logprobs);
    token.token = token.top.front().first;
  }
}

PromptScores SimWorker::ScoresOf(const BatchMember& member) const {
  const SequenceState& sequence = table_.at(member.slot);
  const std::vector<KvValue> contexts = ContextOf(sequence);
  PromptScores scores{member.slot, member.scores.start, std::min(sequence.sampling.num_prompt_logprobs, kVocab), {}, {},
                      {}};
  for (int p = scores.start; p < scores.start + member.scores.count; ++p) {
    const KvValue context = contexts[static_cast<size_t>(p)];
    const TokenId token = sequence.tokens[static_cast<size_t>(p) + 1];
    scores.logprobs.push_back(Logprob(context, token));
    scores.ranks.push_back(RankOf(context, token));
    for (const auto& top : BestTokens(context, scores.num_top)) scores.top.push_back(top);
  }
  return scores;
}

/// Pools prompts as the engines do, from hidden states of one number.
void SimWorker::Pool(const std::vector<BatchMember>& batch, std::vector<SampledToken>& tokens) {
  std::vector<float> rows;
  for (const BatchMember& member : batch) {
    const std::vector<KvValue> contexts = ContextOf(table_.at(member.slot));
    for (int p = member.start; p < member.start + member.count; ++p)
      rows.push_back(Activation(contexts[static_cast<size_t>(p)]));
  }
  const auto rows_at = [&](Pooling, int64_t row, int64_t count) {
    return std::span<const float>(rows).subspan(static_cast<size_t>(row), static_cast<size_t>(count));
  };
  pooler_.Pool(rows_at, batch, table_, tokens);
}

StepResult SimWorker::Execute(const Frame& frame) {
  const StepPlan plan = DecodePlan(frame, limits_);
  if (plan.step != last_step_ + 1 || (epoch_ != 0 && plan.epoch != epoch_))
    Fail("step {} after {}", plan.step, last_step_);
  epoch_ = plan.epoch;
  last_step_ = plan.step;
  const std::vector<BatchMember> batch = table_.Apply(plan);
  Move(plan.swap_outs, device_, host_);
  Move(plan.swap_ins, host_, device_);
  Move(plan.copies, device_, device_);
  for (const BatchMember& member : batch) CheckWhole(member);
  for (const BatchMember& member : batch) CheckState(member, member.start);
  // As in each layer of a forward pass, all new keys and values are written before any query reads. The first slice of
  // a pass writes the hashes that represent the keys and values of all layers. The blocks must still hold these hashes
  // at each later slice.
  for (const BatchMember& member : batch) {
    if (member.slice.begin == 0) Write(TextOf(member));
  }
  StepResult result{plan.epoch, plan.step, 0, frame.header.body_hash, 0, 0, 0, {}, {}};
  for (const BatchMember& member : batch) {
    DrawFor(member, result.tokens);
    if (member.scores.count > 0) result.scores.push_back(ScoresOf(member));
  }
  table_.KeepVerified(batch, result.tokens);
  // A member's rows advance its state, without the rows of wrong drafts.
  const std::vector<int32_t> rows = RemainingRows(batch, result.tokens);
  for (size_t i = 0; i < batch.size(); ++i) WriteState(batch[i], batch[i].start + rows[i]);
  for (const BatchMember& member : batch) CheckContext(TextOf(member));
  for (size_t i = 0; i < batch.size(); ++i) CheckState(batch[i], batch[i].start + rows[i]);
  Pool(batch, result.tokens);
  table_.Resolve(table_.Advance(batch), result.tokens);
  CheckKeptRows();
  result.token_hash = HashTokens(result.tokens);
  return result;
}

}  // namespace quire::sim
