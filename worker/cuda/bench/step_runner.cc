#include "worker/cuda/bench/step_runner.h"

#include <algorithm>
#include <chrono>

#include "comm/base/error.h"

namespace quire::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBlock = 16;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

StepRunner::StepRunner(const ModelFiles& files, const StepRun& run)
    : run_(run),
      sizes_{.block_size = kBlock,
             .max_step_tokens = run.chunk_tokens,
             .max_running = run.batch,
             .max_model_len = (run.context + run.most_steps + kBlock) / kBlock * kBlock,
             .threads = 8,
             .shares = {1.0}},
      engine_(MakeCudaEngine(files, sizes_, run.engine, 0, nullptr)),
      table_(run.batch, kBlock, sizes_.max_model_len),
      blocks_each_(sizes_.max_model_len / kBlock),
      vocab_(files.spec().vocab_size) {
  engine_->AllocateBlocks(1 + run.batch * blocks_each_, 0);
  for (int slot = 0; slot < run.batch; ++slot) Prefill(static_cast<SlotId>(slot));
}

double StepRunner::Overlapped(int steps) {
  Run();
  const auto begin = Clock::now();
  Begin();
  for (int step = 1; step < steps; ++step) {
    if (!engine_->CanBegin(true)) Fail("greedy steps should overlap");
    Begin();
    Finish();
  }
  Finish();
  return SecondsSince(begin) / steps;
}

double StepRunner::OneByOne(int steps) {
  const auto begin = Clock::now();
  for (int step = 0; step < steps; ++step) Run();
  return SecondsSince(begin) / steps;
}

void StepRunner::Prefill(SlotId slot) {
  AddedSequence added;
  added.slot = slot;
  added.num_prompt_tokens = run_.context;
  for (int i = 0; i < run_.context; ++i)
    added.tokens.push_back(static_cast<TokenId>(random_() % static_cast<uint64_t>(vocab_)));
  for (int i = 0; i < blocks_each_; ++i) {  // sequences alternate, so that a sequence's blocks are not neighbours
    added.blocks.push_back(1 + i * run_.batch + static_cast<BlockId>(slot));
  }
  added.sampling.temperature = 0;
  if (run_.logprobs) added.sampling.num_logprobs = 0;
  for (int start = 0; start < run_.context; start += sizes_.max_step_tokens) {
    StepPlan plan;
    if (start == 0) plan.added.push_back(added);
    plan.chunks.push_back({slot, start, std::min(sizes_.max_step_tokens, run_.context - start)});
    plan.position_sum = static_cast<uint64_t>(start);
    Start(plan);
    Finish();
  }
}

void StepRunner::Start(const StepPlan& plan) {
  const auto members = table_.Apply(plan);
  engine_->Begin(plan, members, table_);
  draws_.push_back(table_.Advance(members));
}

void StepRunner::Begin() {
  StepPlan plan;
  for (int slot = 0; slot < run_.batch; ++slot) {
    plan.decodes.push_back(static_cast<SlotId>(slot));
    plan.position_sum += static_cast<uint64_t>(table_.at(static_cast<SlotId>(slot)).num_computed);
  }
  Start(plan);
}

std::vector<SampledToken> StepRunner::Finish() {
  std::vector<SampledToken> tokens = engine_->Finish(table_).tokens;
  table_.Resolve(draws_.front(), tokens);
  draws_.erase(draws_.begin());
  return tokens;
}

}  // namespace quire::bench
