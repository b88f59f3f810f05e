#include "coordinator/metrics/replica_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "coordinator/metrics/series.h"

namespace quire {

/// The metrics of clients on each replica. All replicas share the set of names that have series of their own.
struct ReplicaMetrics::Clients {
  using Reports = std::map<std::string, Scheduler::ClientReport>;

  /// Returns the client's label. The first kMostClients names get their own series; all others share one. A server
  /// without keys has an unbounded number of clients, and every label value creates a series that is never removed.
  std::string LabelOf(const std::string& client) {
    constexpr size_t kMostClients = 128;
    if (known.size() < kMostClients) known.insert(client);
    return known.contains(client) ? client : "others";
  }

  void Update(const Series& series, const Reports& reports) {
    Reports sums;
    for (const std::string& name : known) sums[name];  // clients without a report have 0
    for (const auto& [name, c] : reports) {
      Scheduler::ClientReport& sum = sums[LabelOf(name)];
      sum.running_seqs += c.running_seqs;
      sum.waiting += c.waiting;
      sum.blocks += c.blocks;
      sum.prompt_tokens += c.prompt_tokens;
      sum.generated_tokens += c.generated_tokens;
    }
    for (const auto& [name, sum] : sums) {
      const Series client = series.With("client", name);
      client.Gauge("quire:client_running_seqs", "Sequences of a client that run").Set(sum.running_seqs);
      client.Gauge("quire:client_waiting_requests", "Requests of a client that wait").Set(sum.waiting);
      client.Gauge("quire:client_blocks", "KV blocks that a client's running requests hold").Set(sum.blocks);
      auto& tokens = client.Gauge("quire:client_tokens", "Tokens computed for a client, prompts and answers");
      tokens.Set(std::max(tokens.Value(), static_cast<double>(sum.prompt_tokens + sum.generated_tokens)));
    }
  }

  std::set<std::string> known;
};

struct ReplicaMetrics::Engine {
  Engine(const Series& s, const Topology& topology)
      : series(s),
        config(topology.cache),
        cache_dtype(NameOf(topology.compute.kv_cache_dtype)),
        step_tokens(
            s.Histogram("vllm:iteration_tokens_total", "Tokens computed in a step", StepStatistics::kTokenBounds)),
        step_seconds(
            s.Histogram("quire:step_seconds", "What the ranks took for a step", StepStatistics::kSecondBounds)) {}

  void Gauge(const char* name, const char* help, double value) const { series.Gauge(name, help).Set(value); }
  void Counter(const char* name, const char* help, double value) const { RaiseTo(series.Counter(name, help), value); }

  void Requests(const ReplicaSnapshot& now);
  void Tokens(const ReplicaSnapshot& now);
  void Drafts(const ReplicaSnapshot& now);
  void Blocks(const ReplicaSnapshot& now);
  void CacheShape(const ReplicaSnapshot& now);
  void Ranks(const ReplicaSnapshot& now);
  void Losses(const ReplicaSnapshot& now);

  Series series;
  Topology::Cache config;
  std::string cache_dtype;
  CopiedHistogram step_tokens, step_seconds;
  prometheus::Gauge* shape = nullptr;  // the present vllm:cache_config_info; it has the next two numbers
  int shape_blocks = 0, shape_host_blocks = 0;
};

void ReplicaMetrics::Engine::Requests(const ReplicaSnapshot& now) {
  Gauge("vllm:num_requests_running", "Requests that are being computed", now.running);
  Gauge("vllm:num_requests_waiting", "Requests in the queue", now.waiting);
  const char *by_reason = "vllm:num_requests_waiting_by_reason",
             *help =
                 "Requests in the queue, for want of room (capacity) or because an older one computes what they "
                 "begin with (deferred)";
  series.With("reason", "capacity").Gauge(by_reason, help).Set(now.waiting - now.waiting_for_prefix);
  series.With("reason", "deferred").Gauge(by_reason, help).Set(now.waiting_for_prefix);
  Counter("vllm:num_preemptions_total", "Requests sent back to the queue for lack of blocks",
          static_cast<double>(now.preemptions));
  Counter("quire:swapped_out_total", "Of those, requests whose blocks went to the host",
          static_cast<double>(now.swapped_out));
}

void ReplicaMetrics::Engine::Tokens(const ReplicaSnapshot& now) {
  const auto cached = static_cast<double>(now.stats.cached_tokens);
  const auto ended = static_cast<double>(now.stats.ended_prompt_tokens);
  Counter("vllm:prompt_tokens_total", "Prompt tokens of accepted requests",
          static_cast<double>(now.stats.prompt_tokens));
  Counter("vllm:generation_tokens_total", "Tokens generated", static_cast<double>(now.stats.generated_tokens));
  Counter("quire:computed_tokens_total", "Tokens computed, those again that were lost",
          static_cast<double>(now.stats.computed_tokens));
  Counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache", ended);
  Counter("vllm:prefix_cache_hits_total", "Prompt tokens taken from the prefix cache", cached);
  Counter("vllm:prompt_tokens_cached_total", "Prompt tokens that were not computed", cached);
  const char *by_source = "vllm:prompt_tokens_by_source_total", *help = "Prompt tokens of ended requests";
  RaiseTo(series.With("source", "local_cache_hit").Counter(by_source, help), cached);
  RaiseTo(series.With("source", "local_compute").Counter(by_source, help), ended - cached);
}

void ReplicaMetrics::Engine::Drafts(const ReplicaSnapshot& now) {
  const DraftCounts all = now.stats.all_drafts();
  Counter("vllm:spec_decode_num_drafts_total", "Guesses of further tokens that were verified",
          static_cast<double>(all.drafts));
  Counter("vllm:spec_decode_num_draft_tokens_total", "Tokens of these guesses", static_cast<double>(all.tokens));
  Counter("vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that became tokens of answers",
          static_cast<double>(all.accepted));
  for (int i = 0; i < now.options.drafts.num_tokens; ++i) {
    auto& at = series.With("position", std::to_string(i))
                   .Counter("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                            "Guessed tokens that became tokens of answers, by their place in the guess");
    RaiseTo(at, static_cast<double>(all.accepted_at[static_cast<size_t>(i)]));
  }
  for (size_t i = 0; i < kDraftSources; ++i) {
    const Series of_source = series.With("method", NameOf(static_cast<DraftSource>(i)));
    const DraftCounts& counts = now.stats.drafts[i];
    RaiseTo(of_source.Counter("quire:draft_tokens_total", "Guessed tokens by where they come from"),
            static_cast<double>(counts.tokens));
    RaiseTo(of_source.Counter("quire:accepted_draft_tokens_total",
                              "Guessed tokens that became tokens of answers, by where they come from"),
            static_cast<double>(counts.accepted));
  }
  Gauge("quire:earlier_answers_bytes", "Memory of earlier answers that guesses come from",
        static_cast<double>(now.earlier_answers_bytes));
}

void ReplicaMetrics::Engine::Blocks(const ReplicaSnapshot& now) {
  Gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks in use, 1 is all",
        now.blocks.total > 0 ? static_cast<double>(now.blocks.held) / now.blocks.total : 0);
  const char *blocks = "quire:blocks", *help = "KV blocks by what they hold";
  series.With("state", "held").Gauge(blocks, help).Set(now.blocks.held);
  series.With("state", "cached").Gauge(blocks, help).Set(now.blocks.cached);
  series.With("state", "free").Gauge(blocks, help).Set(now.blocks.total - now.blocks.held - now.blocks.cached);
  const char *host = "quire:host_blocks",
             *host_help = "Blocks of host memory, for requests that are swapped out and for copies of cached blocks";
  series.With("state", "held").Gauge(host, host_help).Set(now.host_blocks.held);
  series.With("state", "cached").Gauge(host, host_help).Set(now.host_blocks.cached);
  series.With("state", "free")
      .Gauge(host, host_help)
      .Set(now.host_blocks.total - now.host_blocks.held - now.host_blocks.cached);
  Counter("quire:host_cache_copied_blocks_total", "Cached KV blocks that were copied to the host",
          static_cast<double>(now.host_copied));
  Counter("quire:host_cache_found_blocks_total", "Copies on the host that requests found and that came back",
          static_cast<double>(now.host_found));
}

/// Sets vllm:cache_config_info. Gateways read the number of blocks from its labels. The number may change when a group
/// is replaced by a group of another shape.
void ReplicaMetrics::Engine::CacheShape(const ReplicaSnapshot& now) {
  if (shape != nullptr && shape_blocks == now.blocks.total && shape_host_blocks == now.host_blocks.total) return;
  if (shape != nullptr) shape->Set(0);
  shape_blocks = now.blocks.total;
  shape_host_blocks = now.host_blocks.total;
  shape = &series.With("block_size", std::to_string(config.block_size))
               .With("num_gpu_blocks", std::to_string(shape_blocks))
               .With("num_cpu_blocks", std::to_string(shape_host_blocks))
               .With("cache_dtype", cache_dtype)
               .With("enable_prefix_caching", config.prefix_caching ? "True" : "False")
               .With("gpu_memory_utilization", fmt::format("{}", config.memory))
               .With("swap_space_bytes", std::to_string(config.host_swap_bytes))
               .Gauge("vllm:cache_config_info", "Shape of the KV cache; 0: it was so once");
  shape->Set(1);
}

void ReplicaMetrics::Engine::Ranks(const ReplicaSnapshot& now) {
  step_tokens.RaiseTo(now.steps.tokens);
  step_seconds.RaiseTo(now.steps.seconds);
  Counter("quire:steps_total", "Steps that were planned", static_cast<double>(now.stats.steps));
  for (size_t rank = 0; rank < now.ranks.size(); ++rank) {
    const RankInfo& info = now.ranks[rank];
    const Series of_rank = series.With("rank", std::to_string(rank));
    of_rank.Gauge("quire:rank_last_step_seconds", "What a rank took for its last step").Set(info.compute_micros * 1e-6);
    of_rank.Gauge("quire:rank_heartbeat_age_seconds", "Since a rank was last heard of")
        .Set(std::chrono::duration<double>(now.when - info.last_beat).count());
    of_rank.Gauge("quire:rank_starved_seconds", "How long a rank's computing thread has waited for a core")
        .Set(std::chrono::duration<double>(info.starved).count());
  }
}

void ReplicaMetrics::Engine::Losses(const ReplicaSnapshot& now) {
  const JournalHealth journal = now.journal.value_or(JournalHealth{});
  Gauge("quire:epoch", "The life of the worker group that serves now, from 1", static_cast<double>(now.epoch));
  Gauge("quire:last_recovery_seconds", "From the last loss of the worker group to the next one's readiness",
        now.losses.last_stall_seconds);
  Counter("quire:recoveries_total", "Worker groups that were lost and replaced", static_cast<double>(now.recoveries));
  for (size_t cause = 0; cause < LossLog::kNumCauses; ++cause) {
    RaiseTo(series.With("cause", LossCauseName(static_cast<LossCause>(cause)))
                .Counter("quire:worker_group_losses_total", "Worker groups that were lost, by cause"),
            static_cast<double>(now.losses.count_by_cause[cause]));
  }
  Counter("quire:journal_lost_records_total", "Records of the step journal that the disk did not take",
          static_cast<double>(journal.lost_records));
  Gauge("quire:journal_waiting_bytes", "Bytes of the step journal that wait for the disk",
        static_cast<double>(journal.waiting_bytes));
}

/// Metrics of requests that moved between replicas.
struct ReplicaMetrics::Moves {
  explicit Moves(const Series& s)
      : with_blocks(
            s.Counter("quire:migrated_with_blocks_total", "Requests that took their KV blocks to another replica")),
        bare(s.Counter("quire:migrated_bare_total",
                       "Requests that went to another replica and are computed again there")),
        failed(s.Counter("quire:migration_failures_total", "Transfers of KV blocks between replicas that broke off")),
        bytes(s.Counter("quire:migrated_bytes_total", "Bytes of KV blocks that went between replicas")),
        seconds(s.Counter("quire:migration_seconds_total", "Seconds that KV blocks were on their way to replicas")) {}

  prometheus::Counter &with_blocks, &bare, &failed, &bytes, &seconds;
};

ReplicaMetrics::ReplicaMetrics(prometheus::Registry& registry, const Topology& topology, int num_replicas)
    : clients_(std::make_unique<Clients>()) {
  const Series model(registry, {{"model_name", topology.model.name}});
  for (int r = 0; r < num_replicas; ++r)
    engines_.push_back(std::make_unique<Engine>(model.With("engine", std::to_string(r)), topology));
  moves_ = std::make_unique<Moves>(model);
}

ReplicaMetrics::~ReplicaMetrics() = default;

void ReplicaMetrics::Update(int replica, const ReplicaSnapshot& snapshot) {
  Engine& engine = *engines_[static_cast<size_t>(replica)];
  engine.Requests(snapshot);
  engine.Tokens(snapshot);
  engine.Drafts(snapshot);
  engine.Blocks(snapshot);
  engine.CacheShape(snapshot);
  engine.Ranks(snapshot);
  engine.Losses(snapshot);
  clients_->Update(engine.series, snapshot.clients);
}

void ReplicaMetrics::Update(const MigrationCounts& migrations) {
  RaiseTo(moves_->with_blocks, static_cast<double>(migrations.with_blocks));
  RaiseTo(moves_->bare, static_cast<double>(migrations.bare));
  RaiseTo(moves_->failed, static_cast<double>(migrations.failed));
  RaiseTo(moves_->bytes, static_cast<double>(migrations.bytes));
  RaiseTo(moves_->seconds, migrations.seconds);
}

}  // namespace quire
