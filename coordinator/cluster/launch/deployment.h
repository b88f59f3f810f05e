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
#include "coordinator/core/engine/engine.h"
#include "coordinator/kv_disk/kv_disk.h"

namespace quire {

/// Owns an engine and its worker groups, one group in each epoch. Launches every group, and ends it.
class Deployment : private LauncherWatch {
 public:
  /// Launches the workers, or waits for workers that another party starts, loads the model and reserves the KV blocks.
  /// Throws Error or GroupFailure that names rank, phase and remedy; then nothing is left running. Setting `cancel`
  /// aborts the start. Without a vocabulary no request may have a grammar. `disk`: where blocks are stored; null:
  /// nowhere.
  Deployment(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel,
             std::shared_ptr<const Vocabulary> vocabulary = nullptr, KvDisk* disk = nullptr);
  ~Deployment() override;

  /// Call it after a loss. Ends the remaining workers and starts a new epoch, or waits for workers of another party.
  /// The engine then continues every request after its delivered tokens. Throws as the constructor does. A failed host
  /// is left out if spare hosts or fewer workers allow that (host_health.h).
  void Relaunch(const GroupFailure& loss);

  /// Replaces healthy workers by a new epoch, which may have another shape. The engine must have no outstanding step.
  /// Requests continue as after a loss. A new shape gives the KV pool a new size, large enough for present requests if
  /// memory allows. If the shape is impossible, throws and leaves the workers running. After any other exception the
  /// shape is the old one and no workers run.
  void Reshape(const GroupShape& shape);
  GroupShape shape() const { return ShapeOf(topology_.parallel); }
  /// Throws Error when no group of this model can have the shape.
  void CheckShape(const GroupShape& shape) const;

  WorkerGroup& group() { return *group_; }
  Engine& engine() { return *engine_; }
  /// Returns the store for this engine's blocks; null: none.
  const std::shared_ptr<KvStore>& kv_store() const { return kv_store_; }
  const std::string& runtime_dir() const { return runtime_dir_.path(); }  // directory for sockets, private to this user
  int max_model_len() const { return engine_->options().max_model_len; }
  /// Returns the assignment sent to the workers of this epoch. Call it on the engine's thread only.
  const AssignMessage& assignment() const { return assignment_; }

  /// Asks the workers to end and waits; kills workers that do not end.
  void Stop(const std::string& reason);

 private:
  void SetShape(const GroupShape& shape);
  WorkerGroup::Options GroupOptions() const;
  /// True when another program starts the workers.
  bool external() const { return topology_.launch.method == LaunchMethod::kExternal; }
  void CheckLauncher() override;
  void Launch();
  void Place(int num_ranks);
  void EndWorkers();
  /// Returns the directory for mpirun's files of this epoch.
  std::string EpochDir() const { return fmt::format("{}/e{}", runtime_dir_.path(), epoch_); }
  void BringUpFirst();
  void BringUp();                          // from Launch to WorkerGroup::Load
  double Reserve(const PoolSizes& pools);  // returns the seconds for moving one block to the host or back
  void StartNextEpoch(bool same_shape);
  /// Places the ranks of the next epoch on several nodes without the hosts `left_out`; returns true if the shape stays.
  /// If the other hosts cannot take all ranks, chooses a smaller shape. If they take none, uses `left_out` again.
  bool PlaceWithout(const std::set<std::string>& left_out);
  PoolSizes ChoosePoolSizes() const;

  Topology topology_;  // parallel: the group's present shape
  const ModelFiles& model_;
  const std::atomic<bool>& cancel_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  const PrivateNetwork network_;
  RuntimeDir runtime_dir_;
  std::unique_ptr<WorkerGroup> group_;
  Placement placement_;  // placement of the present epoch's ranks; empty on one host
  HostHealth host_health_;
  std::unique_ptr<MpirunProcess> launcher_;  // null: another party started the workers
  std::optional<std::chrono::steady_clock::time_point> launcher_ended_;
  std::shared_ptr<KvStore> kv_store_;
  std::unique_ptr<Engine> engine_;
  int max_model_len_ = 0, max_step_tokens_ = 0;
  AssignMessage assignment_;  // sent in the present epoch
  EpochId epoch_ = 1;
};

}  // namespace quire
