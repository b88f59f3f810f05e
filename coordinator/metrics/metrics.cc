#include "coordinator/metrics/metrics.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/metrics/batch_metrics.h"
#include "coordinator/metrics/disk_metrics.h"
#include "coordinator/metrics/process_metrics.h"

namespace quire {

namespace {

/// The metrics of a model's workers, from their start to their end.
struct OfWorkers {
  explicit OfWorkers(const Topology& topology) : replicas(registry, topology, topology.parallel.replicas) {}

  prometheus::Registry registry;
  ReplicaMetrics replicas;
  std::optional<DiskMetrics> disk;  // absent without --kv-disk
};

/// The metrics of one model.
struct OfModel {
  OfModel(prometheus::Registry& registry, const Topology& of_model)
      : topology(of_model), calls(registry, of_model.model.name), life(registry, of_model.model.name) {}

  OfWorkers& Workers() {
    if (!workers) workers.emplace(topology);
    return *workers;
  }

  const Topology topology;
  CallMetrics calls;
  ModelMetrics life;
  std::optional<OfWorkers> workers;  // absent until Update brings numbers of workers
};

/// Adds metric families to a list, and joins those of the same name into one.
void Merge(std::vector<prometheus::MetricFamily> more, std::vector<prometheus::MetricFamily>& families) {
  for (prometheus::MetricFamily& family : more) {
    const auto same = std::ranges::find(families, family.name, &prometheus::MetricFamily::name);
    if (same == families.end()) {
      families.push_back(std::move(family));
    } else {
      std::ranges::move(family.metric, std::back_inserter(same->metric));
    }
  }
}

}  // namespace

struct Metrics::All {
  explicit All(const std::vector<Topology>& topologies) : http(registry), process(registry) {
    for (const Topology& topology : topologies) models.push_back(std::make_unique<OfModel>(registry, topology));
  }

  prometheus::Registry registry;
  HttpMetrics http;
  ProcessMetrics process;
  std::vector<std::unique_ptr<OfModel>> models;
  std::optional<BatchMetrics> batches;  // absent when the server has no batch directory
};

Metrics::Metrics(const std::vector<Topology>& models) : all_(std::make_unique<All>(models)) {}

Metrics::~Metrics() = default;

size_t Metrics::num_models() const { return all_->models.size(); }

CallMetrics& Metrics::calls(size_t model) { return all_->models[model]->calls; }

HttpMetrics& Metrics::http() { return all_->http; }

void Metrics::Update(size_t model, int replica, const ReplicaSnapshot& snapshot) {
  all_->models[model]->Workers().replicas.Update(replica, snapshot);
}

void Metrics::Update(size_t model, const MigrationCounts& migrations) {
  all_->models[model]->Workers().replicas.Update(migrations);
}

void Metrics::Update(size_t model, const KvStoreCounts& disk) {
  OfModel& of_model = *all_->models[model];
  OfWorkers& workers = of_model.Workers();
  if (!workers.disk) workers.disk.emplace(workers.registry, of_model.topology.model.name);
  workers.disk->Update(disk);
}

void Metrics::Update(size_t model, const ModelNumbers& numbers) { all_->models[model]->life.Update(numbers); }

void Metrics::Forget(size_t model) { all_->models[model]->workers.reset(); }

std::string Metrics::Page(const std::optional<BatchNumbers>& batches) {
  all_->process.Update();
  if (batches && !all_->batches) all_->batches.emplace(all_->registry);
  if (batches) all_->batches->Update(*batches);
  std::vector<prometheus::MetricFamily> families = all_->registry.Collect();
  for (const auto& model : all_->models) {
    if (model->workers) Merge(model->workers->registry.Collect(), families);
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace quire
