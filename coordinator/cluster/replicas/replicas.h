#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "coordinator/cluster/replicas/prefix_sketch.h"
#include "coordinator/cluster/replicas/rebalancer.h"

namespace quire {

/// All replicas of a model. Requests enter and leave through this object, which chooses a replica for each.
class Replicas : private ReplicaListener {
 public:
  /// Starts all replicas in parallel. Each engine loop runs as soon as its workers are ready, because workers need
  /// heartbeats; requests come only after Begin. Throws the error of the first replica that fails to start. The feed
  /// gets the events of all replicas. The feed and the model must outlive this object.
  Replicas(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel,
           std::shared_ptr<const Vocabulary> vocabulary, EventFeed& events);
  ~Replicas() override;

  /// Connects the replicas with each other. `on_end` is called once, when all replicas are lost.
  void Begin(std::function<void(const std::string&)> on_end);
  /// Waits until every cached block is in the store, or the store has stopped writing, at most for `most_seconds`.
  void FinishSaving(double most_seconds);
  /// Gives memory of blocks back to the system (replica_rest.h), in at most most_seconds. Returns the bytes that stay;
  /// nullopt when unknown.
  std::optional<int64_t> FreeMemory(double most_seconds);
  /// Ends the engines' threads and drops their requests.
  void StopLoops();
  void StopWorkers(const std::string& reason);

  int size() const { return static_cast<int>(replicas_.size()); }
  Replica& at(int replica) { return *replicas_[static_cast<size_t>(replica)]; }
  const Replica& at(int replica) const { return *replicas_[static_cast<size_t>(replica)]; }
  /// False once every replica is lost.
  bool serving() const;
  /// True while at least one replica can compute.
  bool ready() const;
  /// True while at least one replica restarts its workers.
  bool recovering() const;
  Migrations& migrations() { return *migrations_; }
  /// Returns the disk on which blocks are stored; null: none.
  const KvDisk* disk() const { return disk_.get(); }
  /// Returns the events of all replicas.
  EventFeed& events() { return events_; }

  /// Posts a client's call to the replica that suits it best by the replicas' loads and by their cached blocks of
  /// `prompt`, the first request's prompt (ChooseReplica). On that replica a call with a grammar waits until the
  /// workers have compiled the grammar. `tokens`: number of tokens of all the call's requests. Call it on one thread
  /// only.
  void Submit(std::string_view salt, std::span<const TokenId> prompt, int64_t tokens, const std::string& client,
              const GrammarSource& grammar, Arrival arrival);
  /// Cancels requests on all replicas. The requests' sinks must return true from Abandoned() before this call.
  void Cancel(const std::vector<RequestId>& ids);
  /// Takes requests out of their engines. Each replica's thread calls `taken` once, with the requests that it had. A
  /// request that is still on its way to an engine stays.
  void Withdraw(const std::vector<RequestId>& ids,
                const std::function<void(std::vector<std::unique_ptr<Request>>)>& taken);

  std::vector<ReplicaView> Views() const;

 private:
  void OnRound(int replica, Engine& engine) override;
  void OnBlocksReport(int replica, Rank rank, const BlocksReport& report) override;
  void OnAbandoned(int replica, Engine& engine) override;
  void OnSlowRestart(int replica, Engine& engine) override;
  void OnLost(int replica, const std::string& reason) override;
  bool MayReturn() const override;
  void OnReturned(int replica) override;
  void EndStarters();

  EventFeed& events_;
  std::unique_ptr<KvDisk> disk_;  // null: blocks are not stored
  std::vector<std::unique_ptr<Replica>> replicas_;
  /// Threads that started the replicas after the first. Each thread lives until its workers have ended, because mpirun
  /// is killed when its parent thread ends.
  std::vector<std::thread> starters_;
  std::atomic<bool> stopped_{false};
  std::unique_ptr<Migrations> migrations_;
  std::unique_ptr<Rebalancer> rebalancer_;
  std::atomic<bool> begun_{false};    // every replica has its loop, so replicas may post to each other
  std::vector<EpochId> epochs_seen_;  // indexed by replica; an entry belongs to its replica's thread
  mutable std::mutex mutex_;          // guards on_end_, num_lost_ and last_loss_
  std::function<void(const std::string&)> on_end_;
  int num_lost_ = 0;
  std::string last_loss_;
  int num_replicas_;
  int block_size_;
  PrefixSketch sketch_;
  std::vector<int> recoveries_seen_;  // indexed by replica: recoveries when its sketch was last cleared
};

}  // namespace quire
