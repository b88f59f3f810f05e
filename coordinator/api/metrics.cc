#include "coordinator/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <set>

namespace quire {

namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                             1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kInterToken = {.001, .002, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                             .4,   .5,   .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
const Buckets kEndToEnd = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

}  // namespace

/// What every replica has of its own.
struct Metrics::Engine {
  prometheus::Gauge* running;
  prometheus::Gauge* waiting;
  prometheus::Gauge* kv_usage;
  prometheus::Counter* preemptions;
  prometheus::Counter* prompt_tokens;
  prometheus::Counter* generation_tokens;
  prometheus::Counter* cache_queries;
  prometheus::Counter* cache_hits;
  prometheus::Gauge* epoch;
  prometheus::Gauge* stall;
  prometheus::Counter* journal_lost;
  prometheus::Gauge* journal_waiting;
  std::vector<prometheus::Counter*> losses;  // by LossCause
};

struct Metrics::Families {
  prometheus::Registry registry;
  std::map<std::string, std::string> labels;

  prometheus::Gauge* Gauge(const char* name, const char* help) {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter* Counter(const char* name, const char* help) {
    return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  std::vector<prometheus::Counter*> LossCounters() {
    auto& family = prometheus::BuildCounter()
                       .Name("quire:worker_group_losses_total")
                       .Help("Worker groups that were lost, by cause")
                       .Register(registry);
    std::vector<prometheus::Counter*> counters;
    for (size_t cause = 0; cause < LossLog::kNumCauses; ++cause) {
      auto with_cause = labels;
      with_cause["cause"] = LossCauseName(static_cast<LossCause>(cause));
      counters.push_back(&family.Add(with_cause));
    }
    return counters;
  }
  std::string LabelOf(const std::string& client);
  void SetClients(const std::map<std::string, Scheduler::ClientReport>& clients, size_t replica);
  prometheus::Family<prometheus::Gauge>* GaugeFamily(const char* name, const char* help) {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  prometheus::Histogram& Histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }

  std::set<std::string> known_clients;
  prometheus::Family<prometheus::Gauge>*client_running, *client_waiting, *client_blocks, *client_tokens;
  std::vector<Engine> engines;
  prometheus::Counter* moved_with_blocks;
  prometheus::Counter* moved_bare;
  prometheus::Counter* transfers_failed;
  prometheus::Counter* moved_bytes;
  prometheus::Histogram* first_token;
  prometheus::Histogram* inter_token;
  prometheus::Histogram* end_to_end;
  prometheus::Histogram* request_prompt_tokens;
  prometheus::Histogram* request_generation_tokens;
  prometheus::Family<prometheus::Counter>* success;
  prometheus::Family<prometheus::Counter>* rejections;
};

Metrics::Metrics(const std::string& model_name, int block_size, const std::vector<ReplicaView>& replicas)
    : families_(std::make_unique<Families>()) {
  Families& f = *families_;
  for (size_t r = 0; r < replicas.size(); ++r) {
    f.labels = {{"model_name", model_name}, {"engine", std::to_string(r)}};
    f.engines.push_back(
        {f.Gauge("vllm:num_requests_running", "Requests that are being computed"),
         f.Gauge("vllm:num_requests_waiting", "Requests in the queue"),
         f.Gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks in use, 1 is all"),
         f.Counter("vllm:num_preemptions_total", "Requests sent back to the queue for lack of blocks"),
         f.Counter("vllm:prompt_tokens_total", "Prompt tokens of accepted requests"),
         f.Counter("vllm:generation_tokens_total", "Tokens generated"),
         f.Counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache"),
         f.Counter("vllm:prefix_cache_hits_total", "Prompt tokens taken from the prefix cache"),
         f.Gauge("quire:epoch", "The life of the worker group that serves now, from 1"),
         f.Gauge("quire:last_recovery_seconds", "From the last loss of the worker group to the next one's readiness"),
         f.Counter("quire:journal_lost_records_total", "Records of the step journal that the disk did not take"),
         f.Gauge("quire:journal_waiting_bytes", "Bytes of the step journal that wait for the disk"), f.LossCounters()});
    auto info = f.labels;
    info["block_size"] = std::to_string(block_size);
    info["num_gpu_blocks"] = std::to_string(replicas[r].usable_blocks);
    prometheus::BuildGauge()
        .Name("vllm:cache_config_info")
        .Help("Shape of the KV cache")
        .Register(f.registry)
        .Add(info)
        .Set(1);
  }
  f.client_running = f.GaugeFamily("quire:client_running_seqs", "Sequences of a client that run");
  f.client_waiting = f.GaugeFamily("quire:client_waiting_requests", "Requests of a client that wait");
  f.client_blocks = f.GaugeFamily("quire:client_blocks", "KV blocks that a client's running requests hold");
  f.client_tokens = f.GaugeFamily("quire:client_tokens", "Tokens computed for a client, prompts and answers");
  f.labels.erase("engine");
  f.moved_with_blocks =
      f.Counter("quire:migrated_with_blocks_total", "Requests that took their KV blocks to another replica");
  f.moved_bare =
      f.Counter("quire:migrated_bare_total", "Requests that went to another replica and are computed again there");
  f.transfers_failed =
      f.Counter("quire:migration_failures_total", "Transfers of KV blocks between replicas that broke off");
  f.moved_bytes = f.Counter("quire:migrated_bytes_total", "Bytes of KV blocks that went between replicas");
  // Move-assigned: of a plain literal g++ 12 warns here that it might overlap itself.
  f.labels["engine"] = std::string("0");  // calls are timed as their clients see them, wherever they are computed
  f.first_token = &f.Histogram("vllm:time_to_first_token_seconds", "From the request to its first token", kFirstToken);
  f.inter_token = &f.Histogram("vllm:inter_token_latency_seconds", "Between two tokens of a choice", kInterToken);
  f.end_to_end = &f.Histogram("vllm:e2e_request_latency_seconds", "From the request to its last token", kEndToEnd);
  f.request_prompt_tokens = &f.Histogram("vllm:request_prompt_tokens", "Prompt tokens of a request", kTokens);
  f.request_generation_tokens =
      &f.Histogram("vllm:request_generation_tokens", "Tokens generated for a request", kTokens);
  f.success =
      &prometheus::BuildCounter().Name("vllm:request_success_total").Help("Finished requests").Register(f.registry);
  f.rejections = &prometheus::BuildCounter()
                      .Name("vllm:admission_rejections_total")
                      .Help("Requests refused for overload")
                      .Register(f.registry);
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    auto labels = f.labels;
    labels["finished_reason"] = reason;
    f.success->Add(labels);
  }
}

Metrics::~Metrics() = default;

void Metrics::Observe(const Finished& finished) {
  Families& f = *families_;
  auto labels = f.labels;
  labels["finished_reason"] = finished.reason;
  f.success->Add(labels).Increment();
  if (finished.time_to_first_token >= 0) f.first_token->Observe(finished.time_to_first_token);
  f.end_to_end->Observe(finished.end_to_end);
  f.request_prompt_tokens->Observe(finished.prompt_tokens);
  f.request_generation_tokens->Observe(finished.generated_tokens);
}

void Metrics::ObserveInterTokenLatency(double seconds) { families_->inter_token->Observe(seconds); }

void Metrics::CountRejection(const std::string& reason) {
  families_->rejections->Add({{"model_name", families_->labels["model_name"]}, {"reason", reason}}).Increment();
}

/// The first kMostClients names that come get series of their own, all others share the last one: a server without keys
/// has no end of clients, and every value of a label is a series for ever.
std::string Metrics::Families::LabelOf(const std::string& client) {
  constexpr size_t kMostClients = 128;
  if (known_clients.size() < kMostClients) known_clients.insert(client);
  return known_clients.contains(client) ? client : "others";
}

void Metrics::Families::SetClients(const std::map<std::string, Scheduler::ClientReport>& clients, size_t replica) {
  std::map<std::string, Scheduler::ClientReport> sums;
  for (const std::string& name : known_clients) sums[name];  // who is forgotten has nothing
  for (const auto& [name, c] : clients) {
    Scheduler::ClientReport& sum = sums[LabelOf(name)];
    sum.running_seqs += c.running_seqs;
    sum.waiting += c.waiting;
    sum.blocks += c.blocks;
    sum.prompt_tokens += c.prompt_tokens;
    sum.generated_tokens += c.generated_tokens;
  }
  auto with_client = labels;
  with_client["engine"] = std::to_string(replica);
  for (const auto& [name, sum] : sums) {
    with_client["client"] = name;
    client_running->Add(with_client).Set(sum.running_seqs);
    client_waiting->Add(with_client).Set(sum.waiting);
    client_blocks->Add(with_client).Set(sum.blocks);
    auto& tokens = client_tokens->Add(with_client);
    tokens.Set(std::max(tokens.Value(), static_cast<double>(sum.prompt_tokens + sum.generated_tokens)));
  }
}

std::string Metrics::Page(const std::vector<std::optional<Gauges>>& gauges, const MigrationCounts& migrations) {
  const auto raise_to = [](prometheus::Counter& counter, int64_t value) {
    counter.Increment(static_cast<double>(value) - counter.Value());
  };
  for (size_t r = 0; r < gauges.size(); ++r) {
    if (!gauges[r]) continue;
    const Gauges& g = *gauges[r];
    Engine& engine = families_->engines[r];
    engine.running->Set(g.running);
    engine.waiting->Set(g.waiting);
    engine.kv_usage->Set(g.blocks_total > 0 ? static_cast<double>(g.blocks_used) / g.blocks_total : 0);
    raise_to(*engine.preemptions, g.preemptions);
    raise_to(*engine.prompt_tokens, g.stats.prompt_tokens);
    raise_to(*engine.generation_tokens, g.stats.generated_tokens);
    raise_to(*engine.cache_queries, g.stats.ended_prompt_tokens);
    raise_to(*engine.cache_hits, g.stats.cached_tokens);
    engine.epoch->Set(static_cast<double>(g.epoch));
    engine.stall->Set(g.losses.last_stall_seconds);
    raise_to(*engine.journal_lost, static_cast<int64_t>(g.journal.lost_records));
    engine.journal_waiting->Set(static_cast<double>(g.journal.waiting_bytes));
    families_->SetClients(g.clients, r);
    for (size_t cause = 0; cause < LossLog::kNumCauses; ++cause)
      raise_to(*engine.losses[cause], g.losses.count_by_cause[cause]);
  }
  raise_to(*families_->moved_with_blocks, migrations.with_blocks);
  raise_to(*families_->moved_bare, migrations.bare);
  raise_to(*families_->transfers_failed, migrations.failed);
  raise_to(*families_->moved_bytes, migrations.bytes);
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace quire
