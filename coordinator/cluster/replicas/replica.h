#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "coordinator/cache_events/cache_event_publisher.h"
#include "coordinator/cluster/group/adapter_gate.h"
#include "coordinator/cluster/group/engine_loop.h"
#include "coordinator/cluster/group/event_feed.h"
#include "coordinator/cluster/group/grammar_gate.h"
#include "coordinator/cluster/launch/deployment.h"
#include "coordinator/cluster/replicas/block_shape.h"
#include "coordinator/cluster/replicas/replica_choice.h"
#include "coordinator/cluster/replicas/replica_listener.h"
#include "coordinator/cluster/tier/kv_tier.h"
#include "coordinator/journal/journal.h"

namespace quire {

/// One group of workers, with sockets, epochs, recovery, KV blocks, engine, engine thread and journal of its own. Its
/// failures affect no other replica.
class Replica : private EngineLoopHost {
 public:
  /// Starts the workers as Deployment does. `topology` comes from ReplicaTopology. The feed must outlive the replica.
  /// `disk`: where blocks are stored; null: nowhere.
  Replica(Topology topology, const ModelFiles& model, const std::atomic<bool>& cancel,
          std::shared_ptr<const Vocabulary> vocabulary, EventFeed& feed, KvDisk* disk = nullptr);
  ~Replica() override;

  /// Starts the engine's thread. The listener must outlive the replica.
  void Begin(ReplicaListener& listener);
  /// Ends the engine's thread and drops the engine's requests. StopWorkers then ends the workers.
  void StopLoop();
  void StopWorkers(const std::string& reason) { deployment_.Stop(reason); }
  int index() const { return topology_.parallel.replica; }
  Deployment& deployment() { return deployment_; }
  Engine& engine() { return deployment_.engine(); }  // call only on the engine's thread, once that thread runs
  WorkerGroup& group() { return deployment_.group(); }
  KvTier* tier() const { return tier_.get(); }  // on the engine's thread; null: blocks are not stored
  EngineLoop& loop() { return *loop_; }
  const EngineLoop& loop() const { return *loop_; }
  bool serving() const { return loop_->serving(); }
  bool recovering() const { return loop_->recovering(); }
  std::optional<JournalHealth> journal_health() const {  // nullopt: no journal; callable from any thread
    return journal_ ? std::optional(journal_->health()) : std::nullopt;
  }
  /// Submits a call on the engine's thread, once stored blocks of its prompts are back (KvGate) and the workers have
  /// compiled its grammar, if it has one. From now on view() includes the call's tokens.
  void PostCall(int64_t tokens, const std::string& client, const GrammarSource& grammar, Arrival arrival);
  /// Runs `order` on the engine's thread.
  void PostAdapter(std::function<void(AdapterGate&)> order);
  /// Returns the state at the last Publish, plus the tokens of calls on their way. Any thread may call it.
  ReplicaView view() const;
  BlockShape block_shape() const;
  /// Returns the endpoint where a rank waits for blocks of other groups. Call it on the engine's thread.
  std::string BlockEndpoint(Rank rank);
  /// Updates view(), at most every 2 ms unless calls have arrived. Call it on the engine's thread.
  void Publish(const Engine& engine);

 private:
  void BetweenSteps(Engine& engine) override;
  bool IsSaving() const override { return tier_ != nullptr && tier_->IsSaving(); }
  void Relaunch(const GroupFailure& loss) override;
  void Abandon(Engine& engine) override;
  void Displace(Engine& engine) override { listener_->OnSlowRestart(index(), engine); }
  void OnLost(const std::string& reason) override { listener_->OnLost(index(), reason); }
  bool Return(const GroupFailure& loss) override;
  void OnBlocksReport(Rank rank, const BlocksReport& report) override {
    if (tier_ == nullptr || !tier_->OnReport(rank, report)) listener_->OnBlocksReport(index(), rank, report);
  }
  void BeginTier();
  void OnGrammarReady(Rank rank, const GrammarReady& report) override { gate_.OnReady(rank, report); }
  void OnAdapterReady(Rank rank, const AdapterReady& report) override { adapters_.OnReady(rank, report); }
  std::function<void(Engine&)> Announce(int64_t tokens, std::function<void(Engine&)> task);
  void PublishShape(const Engine& engine);
  void PublishEpoch(const Engine& engine);
  Topology topology_;
  Deployment deployment_;
  EventFeed& feed_;
  EngineWatcher watcher_;
  GrammarGate gate_;
  AdapterGate adapters_;
  std::optional<Journal> journal_;                     // observes the engine; nullopt when journals are off
  CacheEventLog cache_log_;                            // listens to the prefix cache while events are published
  std::unique_ptr<CacheEventPublisher> cache_events_;  // null: no events are published
  ReplicaListener* listener_ = nullptr;                // set by Begin
  std::unique_ptr<KvTier> tier_;                       // null: blocks are not stored
  std::unique_ptr<EngineLoop> loop_;
  mutable std::mutex mutex_;  // guards view_, shape_ and tokens_on_their_way_
  ReplicaView view_;
  BlockShape shape_;
  int64_t tokens_on_their_way_ = 0;  // tokens of posted calls; tokens_arrived_: tokens that arrived after Publish
  std::shared_ptr<std::atomic<int64_t>> tokens_arrived_ = std::make_shared<std::atomic<int64_t>>(0);
  double next_publish_ = 0;
  EpochId shape_epoch_ = 0, told_epoch_ = 0;  // epoch of shape_; epoch last told to the feed; engine's thread only
};

}  // namespace quire
