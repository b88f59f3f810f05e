#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "coordinator/cluster/replicas/prefix_sketch.h"
#include "coordinator/cluster/replicas/rebalancer.h"

namespace quire {

/// The replicas of a server, and which of them a request goes to. Requests enter and leave through here; what a replica
/// does with them is its own affair.
class Replicas : private ReplicaListener {
 public:
  /// Starts all of them, side by side. Each serves as soon as it is there, since its workers need to hear from
  /// somebody; requests come after Begin. Throws what the first one that could not start throws.
  Replicas(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel,
           std::shared_ptr<const Vocabulary> vocabulary = nullptr);
  ~Replicas() override;

  /// Replicas know of each other from here on. `on_end` is called once, when the last one is lost for good.
  void Begin(std::function<void(const std::string&)> on_end);
  /// Ends the engines' threads, and drops what is left in the engines.
  void StopLoops();
  void StopWorkers(const std::string& reason);

  int size() const { return static_cast<int>(replicas_.size()); }
  Replica& at(int replica) { return *replicas_[static_cast<size_t>(replica)]; }
  const Replica& at(int replica) const { return *replicas_[static_cast<size_t>(replica)]; }
  /// False once every replica is lost for good.
  bool serving() const;
  /// True while at least one can compute.
  bool ready() const;
  /// True while the workers of at least one are started again.
  bool recovering() const;
  Migrations& migrations() { return *migrations_; }
  /// What happens on all of them.
  EventFeed& events() { return events_; }

  /// Takes a client's call, whose requests have so many tokens in all, to the replica that is best for the first one's
  /// prompt, once the workers there are ready for the grammar. Belongs to one thread.
  void Submit(std::string_view salt, std::span<const TokenId> prompt, int64_t tokens, const std::string& client,
              const GrammarSource& grammar, Arrival arrival);
  /// Cancels requests, wherever they are. Their sinks must say Abandoned() from before this call on.
  void Cancel(const std::vector<RequestId>& ids);

  std::vector<ReplicaView> Views() const;

 private:
  void OnRound(int replica, Engine& engine) override;
  void OnBlocksReport(int replica, Rank rank, const BlocksReport& report) override;
  void OnAbandoned(int replica, Engine& engine) override;
  void OnLostForGood(int replica, const std::string& reason) override;
  void EndStarters();

  EventFeed events_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  /// The threads that started the replicas but for the first. Each stays until the workers have gone: mpirun is told to
  /// end with the thread that it is a child of.
  std::vector<std::thread> starters_;
  std::atomic<bool> stopped_{false};
  std::unique_ptr<Migrations> migrations_;
  std::unique_ptr<Rebalancer> rebalancer_;
  std::atomic<bool> begun_{false};    // every replica has its loop: they may speak to each other
  std::vector<EpochId> epochs_seen_;  // by replica, of its thread
  std::mutex mutex_;                  // guards the next three
  std::function<void(const std::string&)> on_end_;
  int num_lost_ = 0;
  std::string last_loss_;
  int num_replicas_;
  int block_size_;
  PrefixSketch sketch_;
  std::vector<int> recoveries_seen_;  // by replica: its cache was empty after each
};

}  // namespace quire
