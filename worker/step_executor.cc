#include "worker/step_executor.h"

#include <algorithm>
#include <chrono>

#include "comm/error.h"
#include "kernels/kv_cache.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

uint32_t Micros(Clock::duration duration) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

std::vector<Range> VocabRanges(const std::vector<RankShard>& shards) {
  std::vector<Range> ranges;
  for (const RankShard& shard : shards) ranges.push_back(shard.vocab);
  return ranges;
}

}  // namespace

StepExecutor::StepExecutor(const ModelFiles& files, const ExecutorOptions& options, Collective& collective)
    : config_(files.config()),
      options_(options),
      collective_(collective),
      shards_(PlanShards(config_, options.shares)),
      stream_(options.threads),
      model_(files, shard(), stream_, collective, options.max_step_tokens, options.max_model_len),
      sampler_(VocabRanges(shards_), collective),
      table_(options.max_running, options.block_size, options.max_model_len) {}

int64_t StepExecutor::AllocateBlocks(int num_blocks, int num_host_blocks) {
  cache_ = std::make_unique<KvCache>(config_, shard(), options_.block_size, num_blocks);
  num_host_blocks_ = num_host_blocks;
  if (num_host_blocks == 0) return 0;
  host_blocks_ = HostMemory(static_cast<size_t>(num_host_blocks) * static_cast<size_t>(block_bytes()));
  // Timed over a few blocks that nobody uses yet; the first round touches the pages.
  StepPlan trial;
  for (int i = 1; i < std::min({num_blocks, num_host_blocks, 17}); ++i) trial.swap_outs.push_back({i, i});
  if (trial.swap_outs.empty()) return 0;
  MoveBlocks(trial);
  const auto begin = Clock::now();
  MoveBlocks(trial);
  return std::chrono::nanoseconds(Clock::now() - begin).count() / static_cast<int64_t>(trial.swap_outs.size());
}

void StepExecutor::MoveBlocks(const StepPlan& plan) {
  auto* host = reinterpret_cast<float*>(host_blocks_.data());
  const auto copy = [&](const float* from, float* to, const std::vector<BlockCopyPair>& pairs) {
    static_assert(sizeof(BlockCopyPair) == 2 * sizeof(int32_t));
    kernels::BlockCopy(stream_, {from, to, cache_->block_floats(), reinterpret_cast<const int32_t*>(pairs.data()),
                                 static_cast<int64_t>(pairs.size())});
  };
  copy(cache_->pool(), host, plan.swap_outs);
  copy(host, cache_->pool(), plan.swap_ins);
}

StepResult StepExecutor::Execute(const Frame& plan_frame) {
  const auto begin = Clock::now();
  const PlanLimits limits{static_cast<int32_t>(cache_->num_blocks()),
                          num_host_blocks_,
                          options_.block_size,
                          options_.max_running,
                          options_.max_step_tokens,
                          options_.max_model_len,
                          static_cast<int32_t>(config_.vocab_size)};
  const StepPlan plan = DecodePlan(plan_frame, limits);
  if (plan.step != last_step_ + 1 || (epoch_ != 0 && plan.epoch != epoch_)) {
    Fail("plan: epoch {} step {} after epoch {} step {}", plan.epoch, plan.step, epoch_, last_step_);
  }
  epoch_ = plan.epoch;
  last_step_ = plan.step;

  const std::vector<BatchMember> batch = table_.Apply(plan);
  const auto moving = Clock::now();
  MoveBlocks(plan);
  const uint32_t swap_micros = Micros(Clock::now() - moving);
  kernels::BlockCopy(stream_,
                     {cache_->pool(), cache_->pool(), cache_->block_floats(),
                      reinterpret_cast<const int32_t*>(plan.copies.data()), static_cast<int64_t>(plan.copies.size())});
  inputs_.Build(table_, batch, options_.block_size);
  const std::span<const float> logits = model_.Forward(inputs_, *cache_);
  StepResult result{plan.epoch, plan.step, collective_.rank(), plan_frame.header.body_hash, 0, 0, swap_micros, {}};
  result.tokens = sampler_.Draw(logits, batch, table_);
  result.token_hash = HashTokens(result.tokens);
  table_.Advance(batch);
  for (const SampledToken& drawn : result.tokens) table_.Append(drawn.slot, drawn.token);
  if (collective_.rank() != 0) result.tokens.clear();
  result.compute_micros = Micros(Clock::now() - begin);
  return result;
}

}  // namespace quire
