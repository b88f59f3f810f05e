#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "comm/model/model_files.h"
#include "comm/topology.h"
#include "coordinator/cluster/launcher.h"
#include "coordinator/cluster/runtime_dir.h"
#include "coordinator/cluster/worker_group.h"
#include "coordinator/core/engine.h"

namespace quire {

/// A worker group from its launch to its end, and the engine sized for it.
class Deployment {
 public:
  /// Launches the workers (or waits for those started by hand), loads the model and reserves the KV blocks. Throws
  /// Error or GroupFailure naming rank, phase and remedy; then nothing is left running. Setting `cancel` ends it early.
  Deployment(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel);
  ~Deployment();

  /// Ends what is left of the workers and starts them again as a new epoch; then the engine goes on with every request
  /// from its delivered tokens. Throws like the constructor. Only for workers that were launched here.
  void Relaunch();
  bool can_relaunch() const { return topology_.launch.method == "mpirun"; }

  WorkerGroup& group() { return *group_; }
  Engine& engine() { return *engine_; }
  int max_model_len() const { return engine_->options().max_model_len; }

  /// Asks the workers to end and waits for them; kills what does not end.
  void Stop(const std::string& reason);

 private:
  WorkerGroup::Options GroupOptions(const Topology& topology, const ModelFiles& model) const;
  /// "cuda" or "cpu", by what the topology asks for and the ranks have. Throws Error when they don't go together.
  std::string ChooseBackend(const Topology& topology) const;
  AssignMessage Assignment(const Topology& topology, const ModelFiles& model, const std::string& backend) const;
  void CheckLauncher();
  void Launch();
  int ChooseNumBlocks(const Topology& topology) const;
  int ChooseNumHostBlocks(const Topology& topology) const;
  EngineOptions MakeEngineOptions(const Topology& topology, const ModelConfig& config, int num_blocks,
                                  int num_host_blocks) const;

  const Topology& topology_;
  const std::atomic<bool>& cancel_;
  RuntimeDir runtime_dir_;
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<ChildProcess> launcher_;  // null: the workers were started by someone else
  std::optional<std::chrono::steady_clock::time_point> launcher_ended_;
  std::unique_ptr<Engine> engine_;
  int max_model_len_ = 0, max_step_tokens_ = 0;
  int num_blocks_ = 0, num_host_blocks_ = 0;  // null blocks counted in
  bool cuda_ = false;
  AssignMessage assignment_;
  EpochId epoch_ = 1;
};

}  // namespace quire
