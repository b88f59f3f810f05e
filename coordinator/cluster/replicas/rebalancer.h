#pragma once

#include <vector>

#include "coordinator/cluster/replicas/migrations.h"

namespace quire {

/// Decides which requests go to another replica, and which one. Every replica looks after its own, on its engine's
/// thread, in every round of its loop.
/// Relief: a replica whose requests wait, or which has preempted, at two looks in a row (kLookEvery apart) gives one
/// request to another with plenty of room (ChooseRelief): the last that waits for its first step, else the most junior
/// one. A request is not moved twice within kRestSeconds.
/// Prefill apart: on the first prefill_replicas a request leaves as soon as each of its sequences has a token.
class Rebalancer {
 public:
  static constexpr double kLookEverySeconds = 0.25, kRestSeconds = 10;

  Rebalancer(std::vector<Replica*> replicas, Migrations& migrations)
      : replicas_(std::move(replicas)), migrations_(migrations), watches_(replicas_.size()) {}

  void OnRound(int replica, const Engine& engine);

 private:
  struct Watch {  // one replica's; of its thread
    double next_look = 0;
    int64_t preemptions = 0;
    int looks_in_need = 0;
  };
  std::vector<ReplicaView> Views() const;
  void PassOnPrefilled(int replica, const Engine& engine);
  const Request* WhoLeaves(const Engine& engine) const;

  std::vector<Replica*> replicas_;
  Migrations& migrations_;
  std::vector<Watch> watches_;
};

}  // namespace quire
