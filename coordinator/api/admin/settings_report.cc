#include "coordinator/api/admin/settings_report.h"

#include "comm/base/json.h"
#include "coordinator/cluster/launch/engine_settings.h"
#include "coordinator/log/log.h"

namespace quire {

namespace {

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string_view PreemptionName(const EngineOptions& engine) {
  const bool choice = engine.blocks.num_host_blocks > 0;  // preemption has two modes only with host memory
  const PreemptionMode mode = engine.scheduler.preemption;
  return NameOf(mode == PreemptionMode::kAuto && !choice ? PreemptionMode::kRecompute : mode);
}

/// Returns the name of the KV cache's type. kAuto remains only on GPUs, where the cache has the type of the
/// computation. Then that type's name is returned.
std::string_view KvCacheDtypeName(const ComputeSettings& compute) {
  return compute.kv_cache_dtype == KvCacheDtype::kAuto ? NameOf(compute.dtype) : NameOf(compute.kv_cache_dtype);
}

Json LimitsJson(const Topology::Limits& limits) {
  return {{"head_seconds", limits.head_seconds},
          {"body_seconds", limits.body_seconds},
          {"body_bytes_per_second", limits.body_bytes_per_second},
          {"idle_seconds", limits.idle_seconds},
          {"write_seconds", limits.write_seconds},
          {"write_bytes_per_second", limits.write_bytes_per_second},
          {"connections", limits.connections},
          {"connections_per_address", limits.connections_per_address},
          {"memory_bytes", limits.memory_bytes},
          {"memory_bytes_per_client", limits.memory_bytes_per_client},
          {"queue_seconds", limits.queue_seconds},
          {"request_seconds", limits.request_seconds},
          {"drain_seconds", limits.drain_seconds}};
}

Json KeyLimitsJson(const std::map<std::string, Topology::KeyLimits>& all) {
  Json out = Json::object();
  const auto or_null = [](int64_t limit) { return limit > 0 ? Json(limit) : Json(); };
  for (const auto& [name, limits] : all) {
    out[name] = {{"max_running_seqs", or_null(limits.max_running_seqs)},
                 {"max_queued_reqs", limits.max_queued_reqs >= 0 ? Json(limits.max_queued_reqs) : Json()},
                 {"tokens_per_minute", or_null(limits.tokens_per_minute)},
                 {"max_blocks", or_null(limits.max_blocks)}};
  }
  return out;
}

Json LogsJson(const Topology::Logs& logs) {
  return {{"log_level", NameOf(CurrentLogLevel())},
          {"log_format", NameOf(logs.format)},
          {"access_log", NameOf(logs.access)},
          {"access_log_file", TextOrNull(logs.access_file)},
          {"audit_log_file", TextOrNull(logs.audit_file)}};
}

Json ModelJson(const Topology::Model& model) {
  Json adapters = Json::array();
  for (const AdapterSetting& adapter : model.adapters)
    adapters.push_back({{"name", adapter.name}, {"path", adapter.path}});
  return {{"model", model.path},
          {"served_model_name", model.name},
          {"served_model_aliases", model.aliases},
          {"load_format", NameOf(model.load_format)},
          {"verify_checksum", TextOrNull(model.checksums)},
          {"chat_template", TextOrNull(model.chat_template)},
          {"tool_call_parser", model.tool_call_parser},
          {"reasoning_parser", model.reasoning_parser},
          {"pooling", NameOf(model.pooling)},
          {"scoring", NameOf(model.scoring)},
          {"generation_config", NameOf(model.generation_config)},
          {"lora_modules", std::move(adapters)}};
}

Json LoraJson(const Topology::Lora& lora) {
  return {{"lora_dir", lora.dirs},
          {"max_cpu_loras", lora.max_loaded},
          {"max_lora_rank", lora.max_rank > 0 ? Json(lora.max_rank) : Json()},
          {"lora_memory_bytes", lora.memory_bytes}};
}

/// Returns the settings of the workers' computation, and each worker's share of the model.
Json WorkersJson(const AssignMessage& workers) {
  const ComputeSettings& compute = workers.compute;
  return {{"backend", NameOf(compute.backend)},
          {"dtype", NameOf(compute.dtype)},
          {"quantization", NameOf(compute.quantization)},
          {"activations", NameOf(compute.activations)},
          {"attention_backend", NameOf(compute.attention_backend)},
          {"kv_cache_dtype", KvCacheDtypeName(compute)},
          {"tensor_parallel_size", workers.shares.size()},
          {"shares", workers.shares},
          {"pipeline_parallel_size", workers.cut().num_stages()},
          {"stages", workers.stage_layers.empty() ? Json() : Json(workers.stage_layers)},
          {"expert_parallel", compute.expert_parallel},
          {"threads_per_worker", workers.threads}};
}

/// Returns the settings of speculative decoding; null when speculative decoding is off.
Json SpeculationJson(const Topology::Speculation& speculation, const DraftOptions& drafts) {
  if (drafts.num_tokens == 0) return nullptr;
  return {{"method", NameOf(speculation.method)},
          {"model", TextOrNull(speculation.draft_model)},
          {"num_speculative_tokens", speculation.num_tokens},
          {"prompt_lookup_min", speculation.lookup_min},
          {"prompt_lookup_max", speculation.lookup_max},
          {"disable_by_batch_size", speculation.disable_by_batch_size}};
}

Json KvEventsJson(const Topology::KvEvents& events) {
  if (!events.enabled) return nullptr;
  return {{"endpoint", events.endpoint},
          {"bind", events.binds()},
          {"replay_endpoint", TextOrNull(events.replay_endpoint)},
          {"buffer_steps", events.buffer_steps},
          {"hwm", events.hwm},
          {"max_queue_size", events.max_queue_size},
          {"topic", events.topic},
          {"allow_unauthenticated", events.allow_unauthenticated}};
}

Json SchedulerJson(const Topology& topology, const EngineOptions& engine) {
  return {{"max_model_len", engine.max_model_len},
          {"max_num_seqs", engine.scheduler.max_running},
          {"max_num_queued_reqs", topology.scheduler.max_waiting},
          {"max_num_batched_tokens", engine.scheduler.max_step_tokens},
          {"target_inter_token_ms", TargetMillis(topology.scheduler)},
          {"preemption_mode", PreemptionName(engine)},
          {"plan_ahead", engine.plan_ahead},
          {"speculative_config", SpeculationJson(topology.speculation, engine.drafts)}};
}

}  // namespace

Json SettingsJson(const Topology& topology, const ReplicaSnapshot& replica) {
  const AssignMessage& workers = replica.assignment;
  const EngineOptions& engine = replica.options;
  Json settings = {
      {"exact", topology.exact},
      {"load", NameOf(topology.life.load)},
      {"keep_alive", topology.life.keep_alive},
      {"models_memory", topology.models_memory_bytes > 0 ? Json(topology.models_memory_bytes) : Json()},
      {"data_parallel_size", topology.parallel.replicas},
      {"prefill_replicas", topology.parallel.prefill_replicas},
      {"block_size", engine.blocks.block_size},
      {"num_kv_blocks", engine.blocks.num_blocks - 1},  // the null block does not count
      {"num_swap_blocks", engine.blocks.num_host_blocks},
      {"kv_cache_memory_bytes", topology.cache.memory_bytes > 0 ? Json(topology.cache.memory_bytes) : Json()},
      {"gpu_memory_utilization", topology.cache.memory},
      {"swap_space_bytes", topology.cache.host_swap_bytes},
      {"watermark", engine.blocks.watermark},
      {"kv_disk", TextOrNull(topology.cache.disk.dir)},
      {"kv_disk_bytes", topology.cache.disk.max_bytes},
      {"kv_disk_days", topology.cache.disk.days},
      {"enable_prefix_caching", engine.blocks.prefix_caching},
      {"seed", topology.seed ? Json(*topology.seed) : Json()},
      {"journal", TextOrNull(topology.journal)},
      {"kv_events_config", KvEventsJson(topology.kv_events)},
      {"batch_dir", TextOrNull(topology.batches.dir)},
      {"batch_max_bytes", topology.batches.max_bytes},
      {"batch_concurrency", topology.batches.concurrency},
      {"listen", topology.server.listen},
      {"admin_listen", topology.admin.listen},
      {"api_key_file", TextOrNull(topology.server.key_file)},
      {"admin_token_file", TextOrNull(topology.admin.key_file)},
      {"ssl_certfile", TextOrNull(topology.server.certificate)},
      {"ssl_keyfile", TextOrNull(topology.server.key)},
      {"admin_ssl_certfile", TextOrNull(topology.admin.certificate)},
      {"admin_ssl_keyfile", TextOrNull(topology.admin.key)},
      {"allowed_origins", topology.server.allowed_origins},
      {"allowed_hosts", topology.server.allowed_hosts},
      {"chat_page", topology.server.chat_page},
      {"ignore_unknown_fields", topology.server.ignore_unknown_fields},
      {"metrics_listen", TextOrNull(topology.metrics.listen)},
      {"metrics_on_data_port", topology.metrics.on_data_port},
      {"otlp_traces_endpoint", TextOrNull(topology.traces.endpoint)},
      {"private_network", NameOf(topology.transport.private_network)},
      {"limits", LimitsJson(topology.limits)},
      {"key_limits", KeyLimitsJson(topology.key_limits)}};
  settings.update(SchedulerJson(topology, engine));
  settings.update(ModelJson(topology.model));
  settings.update(LoraJson(topology.lora));
  settings.update(WorkersJson(workers));
  settings.update(LogsJson(topology.logs));
  return settings;
}

}  // namespace quire
