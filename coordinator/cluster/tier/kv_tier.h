#pragma once

#include <functional>
#include <memory>

#include "coordinator/cluster/tier/group_blocks.h"
#include "coordinator/cluster/tier/kv_gate.h"
#include "coordinator/cluster/tier/kv_saver.h"
#include "coordinator/cluster/tier/pinned_prompts.h"

namespace quire {

/// The disk tier of one replica: stores the blocks of the replica's prefix cache, and brings them back before a call
/// enters the engine. Only the engine's thread may use it.
class KvTier {
 public:
  /// The engine and the group must outlive the tier.
  KvTier(std::shared_ptr<KvStore> store, Engine& engine, WorkerGroup& group, GroupBlocks::Options options);
  ~KvTier();
  KvTier(const KvTier&) = delete;
  KvTier& operator=(const KvTier&) = delete;

  /// Takes a call, and calls `enter` once stored blocks of its prompts are back (KvGate::Pass). `now`: seconds on the
  /// engine's clock.
  void Pass(const std::string& client, Arrival arrival, std::function<void(Arrival)> enter, double now);
  /// Called in every round of the engine's loop.
  void Round(double now);
  /// Takes a rank's report about a transfer of the tier. Returns false if the report is about another transfer.
  bool OnReport(Rank rank, const BlocksReport& report) {
    return gate_.OnReport(rank, report) || saver_.OnReport(report);
  }
  /// True while blocks or states wait for the store or are being copied to it.
  bool IsSaving() const { return works_ && saver_.IsSaving(); }
  /// Lets all held calls enter the engine, because the workers have been given up.
  void Open() { gate_.Open(); }
  PinnedPrompts& pins() { return pins_; }

 private:
  void FollowEpoch(double now);

  std::shared_ptr<KvStore> store_;
  Engine& engine_;
  GroupBlocks group_;
  KvSaver saver_;
  KvGate gate_;
  PinnedPrompts pins_;
  EpochId epoch_ = 0;
  bool works_ = false;  // true: this epoch's workers can send blocks to the store and take them back
};

}  // namespace quire
