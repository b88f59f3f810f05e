#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/metrics/call_metrics.h"
#include "coordinator/metrics/http_metrics.h"
#include "coordinator/metrics/replica_metrics.h"

namespace quire {

/// All that dashboards watch: one page in Prometheus' text form. Of the I/O thread.
class Metrics {
 public:
  Metrics(const Topology& topology, int num_replicas);
  ~Metrics();

  CallMetrics& calls();
  HttpMetrics& http();

  /// One snapshot for each replica; one that cannot be asked keeps its last numbers.
  std::string Page(const std::vector<std::optional<ReplicaSnapshot>>& replicas, const MigrationCounts& migrations);

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire
