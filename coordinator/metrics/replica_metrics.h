#pragma once

#include <memory>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/replicas/migrations.h"
#include "coordinator/cluster/replicas/replica_snapshot.h"

namespace prometheus {
class Registry;
}

namespace quire {

/// Metrics of each replica (requests, tokens, blocks, steps, ranks, losses and journal), of clients, and of moves
/// between replicas. Only the I/O thread uses this class.
class ReplicaMetrics {
 public:
  ReplicaMetrics(prometheus::Registry& registry, const Topology& topology, int num_replicas);
  ~ReplicaMetrics();

  void Update(int replica, const ReplicaSnapshot& snapshot);
  void Update(const MigrationCounts& migrations);

 private:
  struct Clients;
  struct Engine;
  struct Moves;
  std::unique_ptr<Clients> clients_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unique_ptr<Moves> moves_;
};

}  // namespace quire
