#include "coordinator/metrics/metrics.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "coordinator/metrics/batch_metrics.h"
#include "coordinator/metrics/disk_metrics.h"
#include "coordinator/metrics/process_metrics.h"

namespace quire {

struct Metrics::All {
  All(const Topology& topology, int num_replicas)
      : calls(registry, topology.model.name),
        http(registry),
        process(registry),
        replicas(registry, topology, num_replicas) {}

  prometheus::Registry registry;
  CallMetrics calls;
  HttpMetrics http;
  ProcessMetrics process;
  ReplicaMetrics replicas;
  std::optional<DiskMetrics> disk;      // absent without --kv-disk
  std::optional<BatchMetrics> batches;  // absent when the server keeps no batches
};

Metrics::Metrics(const Topology& topology, int num_replicas) : all_(std::make_unique<All>(topology, num_replicas)) {}

Metrics::~Metrics() = default;

CallMetrics& Metrics::calls() { return all_->calls; }

HttpMetrics& Metrics::http() { return all_->http; }

std::string Metrics::Page(const std::vector<std::optional<ReplicaSnapshot>>& replicas,
                          const MigrationCounts& migrations, const std::optional<BatchNumbers>& batches,
                          const std::optional<KvStoreCounts>& disk) {
  for (size_t r = 0; r < replicas.size(); ++r) {
    if (replicas[r]) all_->replicas.Update(static_cast<int>(r), *replicas[r]);
  }
  all_->replicas.Update(migrations);
  all_->process.Update();
  if (batches && !all_->batches) all_->batches.emplace(all_->registry);
  if (batches) all_->batches->Update(*batches);
  if (disk && !all_->disk) all_->disk.emplace(all_->registry);
  if (disk) all_->disk->Update(*disk);
  return prometheus::TextSerializer().Serialize(all_->registry.Collect());
}

}  // namespace quire
