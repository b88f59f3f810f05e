#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/kv_disk/kv_store.h"
#include "coordinator/metrics/batch_numbers.h"
#include "coordinator/metrics/call_metrics.h"
#include "coordinator/metrics/http_metrics.h"
#include "coordinator/metrics/replica_metrics.h"

namespace quire {

/// All metrics of the server, as one page in Prometheus' text format. Used on the I/O thread only.
class Metrics {
 public:
  Metrics(const Topology& topology, int num_replicas);
  ~Metrics();

  CallMetrics& calls();
  HttpMetrics& http();

  /// Returns the page. `replicas` has a snapshot for each replica; a replica without one keeps its last numbers.
  /// batches: nothing where none are kept. disk: nothing where blocks are not stored.
  std::string Page(const std::vector<std::optional<ReplicaSnapshot>>& replicas, const MigrationCounts& migrations,
                   const std::optional<BatchNumbers>& batches = std::nullopt,
                   const std::optional<KvStoreCounts>& disk = std::nullopt);

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire
