#include "worker/serve/step_executor.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

using Clock = std::chrono::steady_clock;

StepExecutor::StepExecutor(const ModelSpec& spec, const EngineSizes& sizes, Rank rank,
                           std::unique_ptr<RankEngine> engine)
    : vocab_size_(static_cast<int32_t>(spec.vocab_size)),
      pass_stages_(spec.bidirectional ? static_cast<int32_t>(spec.num_layers()) + 1 : 0),
      sizes_(sizes),
      rank_(rank),
      engine_(std::move(engine)),
      table_(sizes.max_running, sizes.block_size, sizes.max_model_len) {}

void StepExecutor::SetVocabulary(Vocabulary vocabulary, const GrammarMemory& memory) {
  grammars_ = std::make_unique<GrammarStore>(std::move(vocabulary), vocab_size_, memory);
  table_.constrain = [this](const GrammarSource& source, size_t num_given, size_t num_constrained) {
    return grammars_->Constrain(source, num_given, num_constrained);
  };
}

void StepExecutor::FollowGrammarOrder(const Frame& order) {
  if (grammars_ == nullptr) Fail("a grammar came, but no vocabulary");
  const Message message = Decode(order);
  const auto& grammar = std::get<GrammarMessage>(message);
  if (grammar.source)
    grammars_->Prepare(grammar);
  else
    grammars_->Forget(grammar.ticket);
}

void StepExecutor::EndGrammars() {
  table_.constrain = nullptr;
  grammars_.reset();
}

void StepExecutor::SetAdapter(int number, std::shared_ptr<const AdapterShard> shard) {
  std::erase(later_adapters_, number);
  if (shard != nullptr) later_adapters_.push_back(number);
  engine_->SetAdapter(number, std::move(shard));
}

int64_t StepExecutor::AllocateBlocks(int num_blocks, int num_host_blocks, int state_blocks) {
  if (int64_t{state_blocks} * engine_->block_bytes() < engine_->state_bytes())
    Fail("a state of {} bytes does not fit {} blocks of {}", engine_->state_bytes(), state_blocks,
         engine_->block_bytes());
  num_blocks_ = num_blocks;
  state_blocks_ = state_blocks;
  num_host_blocks_ = num_host_blocks;
  return engine_->AllocateBlocks(num_blocks, num_host_blocks);
}

StepExecutor::LentBlocks StepExecutor::Lend(const std::vector<BlockId>& blocks, bool on_device) {
  LentBlocks lent{{}, on_device ? engine_->carrier() : nullptr};
  const int end = on_device ? num_blocks_ : num_host_blocks_;
  for (const BlockId block : blocks) {
    if (block <= kNullBlock || block >= end) Fail("{} block {} of {}", on_device ? "device" : "host", block, end);
    lent.memory.push_back(on_device ? engine_->PoolBlock(block) : engine_->HostBlock(block));
  }
  return lent;
}

StepExecutor::LentBlocks StepExecutor::LendToFill(const std::vector<BlockId>& blocks, bool on_device) {
  LentBlocks lent = Lend(blocks, on_device);
  for (const BlockId block : blocks) engine_->WillReceive(block, on_device);
  return lent;
}

void StepExecutor::FreeBlocks(const std::vector<BlockId>& runs, bool on_device) {
  const int end = on_device ? num_blocks_ : num_host_blocks_;
  for (size_t i = 0; i + 1 < runs.size(); i += 2) {
    const BlockId first = runs[i], count = runs[i + 1];
    if (first <= kNullBlock || count < 0 || count > end - first)
      Fail("{} {} blocks from {} on of {}", count, on_device ? "device" : "host", first, end);
    engine_->FreeBlocks(first, count, on_device);
  }
}

void StepExecutor::SwapOut(const std::vector<BlockCopyPair>& moves) {
  for (const auto& [device, host] : moves) {
    const bool known = device > kNullBlock && device < num_blocks_ && host > kNullBlock && host < num_host_blocks_;
    if (!known) Fail("block {} of {} to host block {} of {}", device, num_blocks_, host, num_host_blocks_);
  }
  if (!moves.empty()) engine_->SwapOut(moves);
}

void StepExecutor::Accept(const Frame& plan_frame) {
  const PlanLimits limits{num_blocks_,        num_host_blocks_,        sizes_.block_size,
                          sizes_.max_running, sizes_.max_step_tokens,  sizes_.max_model_len,
                          vocab_size_,        state_blocks_,           engine_->num_adapters(),
                          later_adapters_,    sizes_.draft.num_tokens, sizes_.draft_rows,
                          pass_stages_};
  StepPlan plan = DecodePlan(plan_frame, limits);
  if (plan.step != last_step_ + 1 || (epoch_ != 0 && plan.epoch != epoch_)) {
    Fail("plan: epoch {} step {} after epoch {} step {}", plan.epoch, plan.step, epoch_, last_step_);
  }
  epoch_ = plan.epoch;
  last_step_ = plan.step;
  std::vector<BatchMember> batch = table_.Apply(plan);
  const bool computes_pending = std::ranges::any_of(batch, [this](const BatchMember& member) {
    return !member.in_slices() &&
           table_.at(member.slot).tokens[static_cast<size_t>(member.start + member.count - 1)] == kPendingToken;
  });
  next_.emplace(std::move(plan), std::move(batch), plan_frame.header.body_hash, computes_pending);
}

bool StepExecutor::can_begin() const { return next_ && engine_->CanBegin(next_->computes_pending && !idle()); }

void StepExecutor::Begin() {
  const auto begin = Clock::now();
  AcceptedPlan next = std::move(*next_);
  next_.reset();
  engine_->Begin(next.plan, next.batch, table_);
  in_flight_.push_back({{next.plan.epoch, next.plan.step, rank_, next.hash, 0, 0, 0, {}, {}},
                        table_.Advance(next.batch),
                        rank_ == 0 ? std::move(next.plan.guesses) : std::vector<GuessOrder>(),
                        begin});
}

StepResult StepExecutor::Finish() {
  ComputedStep outcome = engine_->Finish(table_);
  PlanInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  table_.Resolve(step.draws, outcome.tokens);
  StepResult result = std::move(step.result);
  result.token_hash = HashTokens(outcome.tokens);
  if (rank_ == 0) {
    result.tokens = std::move(outcome.tokens);
    result.scores = std::move(outcome.scores);
  }
  result.swap_micros = outcome.swap_micros;
  Guess(step, result);
  // The time of a step that began while an earlier step was running counts from the end of the earlier step.
  const auto now = Clock::now(), since = std::max(step.begin, last_finish_);
  result.compute_micros =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(now - since).count());
  last_finish_ = now;
  return result;
}

/// Lets the draft model or prediction layer make drafts of what follows the tokens that the step sampled. If no token
/// of a sequence's last draft was right, the sequence has no draft in the next step (PROTOCOL.md, Guesses of a draft
/// model).
void StepExecutor::Guess(PlanInFlight& step, StepResult& result) {
  std::erase_if(step.guesses, [&](const GuessOrder& order) {
    const auto draw = std::ranges::find(step.draws, order.slot, &PendingDraw::slot);
    return draw->max_tokens > 1 && std::ranges::count(result.tokens, order.slot, &SampledToken::slot) == 1;
  });
  if (step.guesses.empty()) return;
  const auto begin = Clock::now();
  result.guesses = engine_->Guess(step.guesses, table_);
  result.guess_micros =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
}

StepResult StepExecutor::Execute(const Frame& plan_frame) {
  Accept(plan_frame);
  Begin();
  return Finish();
}

}  // namespace quire
