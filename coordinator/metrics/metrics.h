#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/kv_disk/kv_store.h"
#include "coordinator/metrics/batch_numbers.h"
#include "coordinator/metrics/call_metrics.h"
#include "coordinator/metrics/http_metrics.h"
#include "coordinator/metrics/model_metrics.h"
#include "coordinator/metrics/replica_metrics.h"

namespace quire {

/// All metrics of the server, as one page in Prometheus' text format. Only the I/O thread uses this class.
class Metrics {
 public:
  /// `models`: the topology of each model (ModelTopology).
  explicit Metrics(const std::vector<Topology>& models);
  ~Metrics();

  size_t num_models() const;
  CallMetrics& calls(size_t model);
  HttpMetrics& http();

  /// Take new numbers: of a replica, of moves between a model's replicas, of a model's blocks in --kv-disk, or of a
  /// model. The page shows the latest numbers.
  void Update(size_t model, int replica, const ReplicaSnapshot& snapshot);
  void Update(size_t model, const MigrationCounts& migrations);
  void Update(size_t model, const KvStoreCounts& disk);
  void Update(size_t model, const ModelNumbers& numbers);
  /// Forgets the numbers of the model's replicas and of its blocks in --kv-disk, because its workers have ended. These
  /// counters begin at zero again.
  void Forget(size_t model);
  /// Returns the page. batches: nullopt when the server has no batch directory.
  std::string Page(const std::optional<BatchNumbers>& batches = std::nullopt);

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire
