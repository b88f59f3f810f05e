#pragma once

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/group/host_health.h"
#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/cluster/launch/group_shape.h"
#include "coordinator/cluster/launch/mpirun_process.h"
#include "coordinator/cluster/launch/placement.h"
#include "coordinator/cluster/launch/private_network.h"
#include "coordinator/cluster/launch/runtime_dir.h"
#include "coordinator/core/engine.h"

namespace quire {

/// The worker groups of one engine, one after another, each from its launch to its end, and the engine itself.
class Deployment : private LauncherWatch {
 public:
  /// Launches the workers (or waits for those started by hand), loads the model and reserves the KV blocks. Throws
  /// Error or GroupFailure naming rank, phase and remedy; then nothing is left running. Setting `cancel` ends it early.
  /// Without a vocabulary no request may have a grammar.
  Deployment(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel,
             std::shared_ptr<const Vocabulary> vocabulary = nullptr);
  ~Deployment() override;

  /// After a loss: ends what is left of the workers and starts them again as a new epoch (or waits for those that
  /// somebody else starts again); then the engine goes on with every request from its delivered tokens. Throws like the
  /// constructor. A host that failed is left out, if spare hosts or fewer workers allow it (host_health.h).
  void Relaunch(const GroupFailure& loss);

  /// Replaces workers that are well by others, in a new epoch, of another shape perhaps. The engine has nothing
  /// outstanding. Requests go on as after a loss; the KV pool is sized anew, and for what those need at least if the
  /// memory is there. When it throws, the shape is the old one and no workers are there.
  void Reshape(const GroupShape& shape);
  GroupShape shape() const { return {topology_.parallel.tensor, topology_.parallel.shares}; }
  /// Throws Error when no group of this model can have that shape.
  void CheckShape(const GroupShape& shape) const;

  WorkerGroup& group() { return *group_; }
  Engine& engine() { return *engine_; }
  const std::string& runtime_dir() const { return runtime_dir_.path(); }  // private to this server's user: for sockets
  int max_model_len() const { return engine_->options().max_model_len; }
  /// What the workers of this epoch were told. On the engine's thread.
  const AssignMessage& assignment() const { return assignment_; }

  /// Asks the workers to end and waits for them; kills what does not end.
  void Stop(const std::string& reason);

 private:
  WorkerGroup::Options GroupOptions() const;
  bool external() const {
    return topology_.launch.method == LaunchMethod::kExternal;
  }  // somebody else starts the workers
  void CheckLauncher() override;
  void Launch();
  void Place(int num_ranks);
  void EndWorkers();
  /// Where mpirun keeps its files in this epoch.
  std::string EpochDir() const { return fmt::format("{}/e{}", runtime_dir_.path(), epoch_); }
  void BringUpFirst();
  void BringUp();                          // Launch to Load
  double Reserve(const PoolSizes& pools);  // of the blocks; returns the seconds that moving one takes
  void StartNextEpoch(bool same_shape);
  /// Several nodes: where the ranks of the next epoch live, without the hosts that failed. When the others cannot take
  /// all ranks, the shape becomes a smaller one. False when it did.
  bool PlaceWithout(const std::set<std::string>& left_out);
  PoolSizes ChoosePoolSizes() const;

  Topology topology_;  // parallel: the shape that the group has
  const ModelFiles& model_;
  const std::atomic<bool>& cancel_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  const PrivateNetwork network_;
  RuntimeDir runtime_dir_;
  std::unique_ptr<WorkerGroup> group_;
  Placement placement_;  // of the epoch; nothing on one host
  HostHealth host_health_;
  std::unique_ptr<MpirunProcess> launcher_;  // null: the workers were started by someone else
  std::optional<std::chrono::steady_clock::time_point> launcher_ended_;
  std::unique_ptr<Engine> engine_;
  int max_model_len_ = 0, max_step_tokens_ = 0;
  AssignMessage assignment_;  // of the epoch
  EpochId epoch_ = 1;
};

}  // namespace quire
