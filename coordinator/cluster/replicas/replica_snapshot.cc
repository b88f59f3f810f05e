#include "coordinator/cluster/replicas/replica_snapshot.h"

#include <algorithm>

#include "coordinator/cluster/replicas/replica.h"

namespace quire {

namespace {

int WaitingForPrefix(const WaitingQueue& queue) {
  const auto waits = [](const Request* request) { return request->told_to_wait; };
  int64_t count = 0;
  for (const auto& [name, client] : queue.clients()) count += std::ranges::count_if(client.waiting, waits);
  return static_cast<int>(count);
}

ReplicaState StateOf(const Replica& replica) {
  if (replica.recovering()) return ReplicaState::kRecovering;
  if (!replica.serving()) return ReplicaState::kFailed;
  return replica.loop().paused() ? ReplicaState::kPaused : ReplicaState::kServing;
}

}  // namespace

PoolCounts CountsOf(const BlockPool& pool) {
  return {.total = pool.num_usable(), .free = pool.num_free(), .held = pool.num_held(), .cached = pool.num_cached()};
}

ReplicaSnapshot TakeSnapshot(Replica& replica) {
  const Engine& engine = replica.engine();
  const Scheduler& scheduler = engine.scheduler();
  const WorkerGroup& group = replica.group();
  return {
      .replica = replica.index(),
      .when = std::chrono::steady_clock::now(),
      .state = StateOf(replica),
      .epoch = engine.epoch(),
      .recoveries = replica.loop().num_recoveries(),
      .losses = replica.loop().losses().snapshot(),
      .journal = replica.journal_health(),
      .shape = replica.deployment().shape(),
      .ranks = group.ranks(),
      .encrypted = group.encrypted(),
      .refused_peers = group.num_refused_peers(),
      .foreign_frames = group.num_foreign_frames(),
      .assignment = replica.deployment().assignment(),
      .options = engine.options(),
      .stats = engine.stats(),
      .steps = replica.loop().steps(),
      .running = scheduler.num_running(),
      .waiting = scheduler.num_waiting(),
      .waiting_for_prefix = WaitingForPrefix(scheduler.queue()),
      .blocks = CountsOf(engine.blocks().pool()),
      .host_blocks = CountsOf(engine.blocks().host_pool()),
      .preemptions = scheduler.num_preemptions(),
      .swapped_out = scheduler.num_swapped_out(),
      .host_copied = engine.blocks().host_cache().num_copied(),
      .host_found = engine.blocks().host_cache().num_found(),
      .earlier_answers_bytes = engine.earlier_answers().bytes(),
      .clients = scheduler.Clients(),
  };
}

}  // namespace quire
