#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "coordinator/cluster/group/loss_log.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/cluster/group/step_statistics.h"
#include "coordinator/cluster/launch/group_shape.h"
#include "coordinator/core/engine/engine.h"
#include "coordinator/journal/journal.h"

namespace quire {

class Replica;

enum class ReplicaState { kServing, kPaused, kRecovering, kFailed };

/// The blocks of a pool by use at one moment, without the null block.
struct PoolCounts {
  int total = 0, free = 0;  // free includes cached blocks
  int held = 0, cached = 0;
};
PoolCounts CountsOf(const BlockPool& pool);

/// The state of a replica at one moment between two steps, as plain data, from which other threads make status pages
/// and metrics.
struct ReplicaSnapshot {
  int replica = 0;
  std::chrono::steady_clock::time_point when;
  ReplicaState state{};
  EpochId epoch = 0;
  int64_t recoveries = 0;
  LossLog::Snapshot losses;
  std::optional<JournalHealth> journal;  // nullopt without a journal

  GroupShape shape;
  std::vector<RankInfo> ranks;
  bool encrypted = false;
  uint64_t refused_peers = 0, foreign_frames = 0;  // refused connections and dropped frames of the workers' transport
  AssignMessage assignment;                        // sent to the ranks

  EngineOptions options;
  EngineStats stats;
  StepStatistics steps;
  int running = 0, waiting = 0;  // requests
  int waiting_for_prefix = 0;    // waiting requests whose prefix another request computes now
  PoolCounts blocks, host_blocks;
  int64_t preemptions = 0, swapped_out = 0;
  int64_t host_copied = 0, host_found = 0;  // blocks copied to the host cache; copies that came back
  size_t earlier_answers_bytes = 0;         // memory of the earlier answers that drafts come from
  std::map<std::string, Scheduler::ClientReport> clients;
};

/// Copies the replica's state. Call it on the replica's engine thread.
ReplicaSnapshot TakeSnapshot(Replica& replica);

}  // namespace quire
