#include "coordinator/metrics/metrics.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "coordinator/metrics/batch_metrics.h"
#include "coordinator/metrics/disk_metrics.h"
#include "coordinator/metrics/process_metrics.h"

namespace quire {

namespace {

/// The metrics of one model.
struct OfModel {
  OfModel(prometheus::Registry& registry, const Topology& topology)
      : name(topology.model.name), calls(registry, name), replicas(registry, topology, topology.parallel.replicas) {}

  std::string name;
  CallMetrics calls;
  ReplicaMetrics replicas;
  std::optional<DiskMetrics> disk;  // absent without --kv-disk
};

}  // namespace

struct Metrics::All {
  explicit All(const std::vector<Topology>& topologies) : http(registry), process(registry) {
    for (const Topology& topology : topologies) models.push_back(std::make_unique<OfModel>(registry, topology));
  }

  prometheus::Registry registry;
  HttpMetrics http;
  ProcessMetrics process;
  std::vector<std::unique_ptr<OfModel>> models;
  std::optional<BatchMetrics> batches;  // absent when the server keeps no batches
};

Metrics::Metrics(const std::vector<Topology>& models) : all_(std::make_unique<All>(models)) {}

Metrics::~Metrics() = default;

size_t Metrics::num_models() const { return all_->models.size(); }

CallMetrics& Metrics::calls(size_t model) { return all_->models[model]->calls; }

HttpMetrics& Metrics::http() { return all_->http; }

void Metrics::Update(size_t model, int replica, const ReplicaSnapshot& snapshot) {
  all_->models[model]->replicas.Update(replica, snapshot);
}

void Metrics::Update(size_t model, const MigrationCounts& migrations) {
  all_->models[model]->replicas.Update(migrations);
}

void Metrics::Update(size_t model, const KvStoreCounts& disk) {
  OfModel& of_model = *all_->models[model];
  if (!of_model.disk) of_model.disk.emplace(all_->registry, of_model.name);
  of_model.disk->Update(disk);
}

std::string Metrics::Page(const std::optional<BatchNumbers>& batches) {
  all_->process.Update();
  if (batches && !all_->batches) all_->batches.emplace(all_->registry);
  if (batches) all_->batches->Update(*batches);
  return prometheus::TextSerializer().Serialize(all_->registry.Collect());
}

}  // namespace quire
