#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "coordinator/cluster/replicas/replicas.h"

namespace quire {

/// The worker groups of one model, from their start to their end, on a thread of their own. The thread lives as long as
/// the workers, because mpirun is killed when the thread that started it ends.
class ModelWorkers {
 public:
  /// Begins to start the workers. `started` is called once, on the thread of this object: with null when every replica
  /// is ready, or with the reason why the workers do not run. `log_name`: prefix of log lines about these workers. The
  /// references must outlive this object.
  ModelWorkers(const Topology& topology, const ModelFiles& files, const std::atomic<bool>& cancel,
               std::shared_ptr<const Vocabulary> vocabulary, EventFeed& events, std::string log_name,
               std::function<void(std::exception_ptr)> started);
  /// Ends the engines' threads, then the workers.
  ~ModelWorkers();
  ModelWorkers(const ModelWorkers&) = delete;
  ModelWorkers& operator=(const ModelWorkers&) = delete;

  /// Returns the replicas, once `started` was called with null.
  Replicas& replicas() { return *replicas_; }

 private:
  std::unique_ptr<Replicas> replicas_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace quire
