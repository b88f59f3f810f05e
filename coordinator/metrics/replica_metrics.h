#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/replicas/migrations.h"
#include "coordinator/cluster/replicas/replica.h"

namespace prometheus {
class Registry;
}

namespace quire {

/// A replica in numbers, taken at one moment on its engine's thread.
struct ReplicaSnapshot {
  explicit ReplicaSnapshot(Replica& replica);

  int running = 0, waiting = 0;
  int waiting_for_prefix = 0;  // of those: an older request is computing what they begin with
  int blocks_held = 0, blocks_cached = 0, blocks_usable = 0;
  int host_blocks_held = 0, host_blocks_usable = 0;
  EngineStats stats;
  int64_t preemptions = 0, swapped_out = 0, recoveries = 0;
  EpochId epoch = 0;
  LossLog::Snapshot losses;
  JournalHealth journal;
  std::map<std::string, Scheduler::ClientReport> clients;
  StepStatistics steps;
  std::vector<RankInfo> ranks;
};

/// What each replica has of its own: requests, blocks, steps, ranks, losses, journal, and what its clients have. Of the
/// I/O thread.
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
