#include "worker/step_executor.h"

#include <chrono>

#include "comm/error.h"
#include "kernels/kv_cache.h"

namespace quire {

namespace {

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

void StepExecutor::AllocateBlocks(int num_blocks) {
  cache_ = std::make_unique<KvCache>(config_, shard(), options_.block_size, num_blocks);
}

StepResult StepExecutor::Execute(const Frame& plan_frame) {
  const auto begin = std::chrono::steady_clock::now();
  const PlanLimits limits{static_cast<int32_t>(cache_->num_blocks()),
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
  kernels::BlockCopy(stream_,
                     {cache_->pool(), cache_->block_floats(), reinterpret_cast<const int32_t*>(plan.copies.data()),
                      static_cast<int64_t>(plan.copies.size())});
  inputs_.Build(table_, batch, options_.block_size);
  const std::span<const float> logits = model_.Forward(inputs_, *cache_);
  StepResult result{plan.epoch, plan.step, collective_.rank(), plan_frame.header.body_hash, 0, 0, {}};
  result.tokens = sampler_.Draw(logits, batch, table_);
  result.token_hash = HashTokens(result.tokens);
  table_.Advance(batch);
  for (const SampledToken& drawn : result.tokens) table_.Append(drawn.slot, drawn.token);
  if (collective_.rank() != 0) result.tokens.clear();
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  result.compute_micros = static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count());
  return result;
}

}  // namespace quire
