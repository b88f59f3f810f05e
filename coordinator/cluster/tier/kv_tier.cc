#include "coordinator/cluster/tier/kv_tier.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "comm/base/error.h"

namespace quire {

KvTier::KvTier(std::shared_ptr<KvStore> store, Engine& engine, WorkerGroup& group, GroupBlocks::Options options)
    : store_(std::move(store)),
      engine_(engine),
      group_(group, options),
      saver_(*store_, group_, engine.blocks().block_size()),
      gate_(*store_, group_, options.wake),
      pins_(*store_, engine, options.topology.parallel.replica, options.topology.parallel.replicas) {
  engine_.AddCacheListener(&saver_);
}

KvTier::~KvTier() { engine_.RemoveCacheListener(&saver_); }

void KvTier::Pass(const std::string& client, Arrival arrival, std::function<void(Arrival)> enter, double now) {
  FollowEpoch(now);
  if (!works_) return enter(std::move(arrival));
  gate_.Pass(client, std::move(arrival), std::move(enter), engine_, now);
}

void KvTier::FollowEpoch(double now) {
  if (std::exchange(epoch_, engine_.epoch()) == engine_.epoch()) return;
  saver_.Forget();
  gate_.Forget();
  works_ = false;
  try {
    group_.Begin(engine_.epoch());
    works_ = group_.bytes_of(StoredKind::kBlock) > 0;
    if (engine_.blocks().has_states() && group_.bytes_of(StoredKind::kState) == 0) {
      spdlog::info("KV on disk: nothing is stored, because the states of this model are on GPUs");
      works_ = false;
    }
  } catch (const Error& error) {
    spdlog::warn("KV on disk: nothing is stored or found: {}", error.what());
  }
  if (!works_) return gate_.Open();
  pins_.Restore(gate_, now);
}

void KvTier::Round(double now) {
  FollowEpoch(now);
  for (const BlockTransferEnd& end : group_.TakeEnds()) saver_.OnEnd(end);
  if (!works_) return;
  saver_.Round(engine_);
  gate_.Round(engine_, now);
  pins_.Round(now);
}

}  // namespace quire
