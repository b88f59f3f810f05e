#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/loss_log.h"
#include "coordinator/cluster/migrations.h"
#include "coordinator/core/engine.h"
#include "coordinator/journal/journal.h"

namespace quire {

/// The numbers that dashboards watch, under the names they know (vllm:...). Touched on the I/O thread only.
class Metrics {
 public:
  /// One view for each replica.
  Metrics(const std::string& model_name, int block_size, const std::vector<ReplicaView>& replicas);
  ~Metrics();

  /// One finished call, as its client saw it; times in seconds.
  struct Finished {
    std::string reason;  // stop, length, abort, error
    int prompt_tokens = 0, generated_tokens = 0;
    double time_to_first_token = -1;  // below 0: there was none
    double end_to_end = 0;
  };
  void Observe(const Finished& finished);
  void ObserveInterTokenLatency(double seconds);
  void CountRejection(const std::string& reason);

  /// The text page. `gauges` are the replicas' of this moment; one that cannot be asked keeps its last numbers.
  struct Gauges {
    int running = 0, waiting = 0;
    int blocks_used = 0, blocks_total = 0;
    EngineStats stats;
    int64_t preemptions = 0;
    EpochId epoch = 0;
    LossLog::Snapshot losses;
    JournalHealth journal;
    std::map<std::string, Scheduler::ClientReport> clients;
  };
  std::string Page(const std::vector<std::optional<Gauges>>& gauges, const MigrationCounts& migrations);

 private:
  struct Engine;
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace quire
