#include "coordinator/cluster/launch/engine_settings.h"

namespace quire {

int TargetMillis(const Topology::Scheduler& scheduler) {
  constexpr int kByItself = 100;
  if (scheduler.target_inter_token_ms > 0) return scheduler.target_inter_token_ms;
  return scheduler.auto_step_tokens ? kByItself : 0;
}

LiveOptions LiveOptionsOf(const Topology& topology) {
  return {topology.cache.prefix_caching, static_cast<double>(topology.limits.queue_seconds),
          static_cast<double>(topology.limits.request_seconds), TargetMillis(topology.scheduler) / 1000.0};
}

namespace {

DraftOptions DraftOptionsOf(const Topology::Speculation& s) {
  const bool by_itself = s.method == SpeculationMethod::kAuto;
  const bool answers = by_itself || s.method == SpeculationMethod::kSuffix;
  const bool by_layer = s.method == SpeculationMethod::kMtp;
  return {.num_tokens = s.method == SpeculationMethod::kOff ? 0 : s.num_tokens,
          .min_match = s.lookup_min,
          .max_match = s.lookup_max,
          .max_batch = s.disable_by_batch_size,
          .from_text = answers || s.method == SpeculationMethod::kNgram,
          .from_answers = answers,
          .must_pay = by_itself,
          .from_model = by_layer || s.method == SpeculationMethod::kDraftModel,
          .model_source = by_layer ? DraftSource::kLayer : DraftSource::kModel};
}

}  // namespace

EngineOptions EngineOptionsOf(const Topology& topology, const ModelSpec& spec, const PoolSizes& pools,
                              int max_model_len, int max_step_tokens) {
  EngineOptions options;
  options.scheduler.max_step_tokens = max_step_tokens;
  options.scheduler.max_running = topology.scheduler.max_running;
  options.scheduler.preemption = topology.scheduler.preemption;
  options.scheduler.num_stages = topology.parallel.pipeline;
  options.blocks.num_blocks = pools.num_blocks;
  options.blocks.num_host_blocks = pools.num_host_blocks;
  options.blocks.state_blocks = pools.state_blocks;
  options.blocks.block_size = topology.cache.block_size;
  options.blocks.watermark = topology.cache.watermark;
  if (spec.bidirectional) {
    options.scheduler.pass_stages = static_cast<int>(spec.num_layers()) + 1;
    options.scheduler.max_kept_rows = MostKeptRows(max_model_len);
  }
  options.blocks.sliding_window = spec.bidirectional ? 0 : static_cast<int>(spec.window());
  const LiveOptions live = LiveOptionsOf(topology);
  options.blocks.prefix_caching = live.prefix_caching && !spec.bidirectional;
  options.max_wait_seconds = live.max_wait_seconds;
  options.max_request_seconds = live.max_request_seconds;
  options.scheduler.target_step_seconds = live.target_step_seconds;
  options.plan_ahead = topology.scheduler.plan_ahead;
  options.drafts = DraftOptionsOf(topology.speculation);
  options.max_model_len = max_model_len;
  options.vocab_size = static_cast<int>(spec.vocab_size);
  return options;
}

}  // namespace quire
