#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "coordinator/cluster/group/engine_loop.h"
#include "coordinator/cluster/group/event_feed.h"
#include "coordinator/cluster/group/grammar_gate.h"
#include "coordinator/cluster/launch/deployment.h"
#include "coordinator/cluster/replicas/block_shape.h"
#include "coordinator/cluster/replicas/replica_choice.h"
#include "coordinator/cluster/replicas/replica_listener.h"
#include "coordinator/journal/journal.h"

namespace quire {

/// One tensor-parallel group with everything that is its own: workers, sockets, epochs, recovery, KV blocks, engine,
/// engine thread and journal. What happens to it happens to no other one.
class Replica : private EngineLoopHost {
 public:
  /// Starts the workers, like Deployment. `topology` is a ReplicaTopology.
  /// The feed outlives it.
  Replica(Topology topology, const ModelFiles& model, const std::atomic<bool>& cancel,
          std::shared_ptr<const Vocabulary> vocabulary, EventFeed& feed);

  /// Begins to serve: starts the engine's thread. The listener outlives it.
  void Begin(ReplicaListener& listener);
  /// Ends the engine's thread and drops what is left in the engine; then, apart, the workers.
  void StopLoop();
  void StopWorkers(const std::string& reason) { deployment_.Stop(reason); }

  int index() const { return topology_.parallel.replica; }
  Deployment& deployment() { return deployment_; }
  Engine& engine() { return deployment_.engine(); }  // of its thread, once that runs
  WorkerGroup& group() { return deployment_.group(); }
  EngineLoop& loop() { return *loop_; }
  const EngineLoop& loop() const { return *loop_; }
  bool serving() const { return loop_->serving(); }
  bool recovering() const { return loop_->recovering(); }
  /// Nothing without a journal. From any thread.
  std::optional<JournalHealth> journal_health() const {
    return journal_ ? std::optional(journal_->health()) : std::nullopt;
  }

  /// Submits a call on the engine's thread, with a grammar when the workers are ready for that. The tokens that it
  /// brings to compute count in view() at once.
  void PostCall(int64_t tokens, const std::string& client, const GrammarSource& grammar, Arrival arrival);
  /// The state of the last round of its loop. From any thread.
  ReplicaView view() const;
  BlockShape block_shape() const;
  /// Where a rank waits for blocks of other groups. On the engine's thread.
  std::string BlockEndpoint(Rank rank);
  /// On the engine's thread: takes the state down for view(); now and then only, since it costs a look at every
  /// request.
  void Publish(const Engine& engine);

 private:
  void BetweenSteps(Engine& engine) override;
  void Relaunch(const GroupFailure& loss) override;
  void Abandon(Engine& engine) override;
  void OnLostForGood(const std::string& reason) override { listener_->OnLostForGood(index(), reason); }
  void OnBlocksReport(Rank rank, const BlocksReport& report) override {
    listener_->OnBlocksReport(index(), rank, report);
  }
  void OnGrammarReady(Rank rank, const GrammarReady& report) override { gate_.OnReady(rank, report); }

  std::function<void(Engine&)> Announce(int64_t tokens, std::function<void(Engine&)> task);
  void PublishShape(const Engine& engine);
  void PublishEpoch(const Engine& engine);

  Topology topology_;
  Deployment deployment_;
  EventFeed& feed_;
  EngineWatcher watcher_;
  GrammarGate gate_;
  std::optional<Journal> journal_;       // told of what the engine does
  ReplicaListener* listener_ = nullptr;  // from Begin on
  std::unique_ptr<EngineLoop> loop_;
  mutable std::mutex mutex_;  // guards the next three
  ReplicaView view_;
  BlockShape shape_;
  int64_t tokens_on_their_way_ = 0;
  std::shared_ptr<std::atomic<int64_t>> tokens_arrived_ = std::make_shared<std::atomic<int64_t>>(0);  // since Publish
  double next_publish_ = 0;
  EpochId shape_epoch_ = 0;  // that shape_ is of; of the engine's thread
  EpochId told_epoch_ = 0;   // that the feed knows of; likewise
};

}  // namespace quire
