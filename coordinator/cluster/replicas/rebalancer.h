#pragma once

#include <vector>

#include "coordinator/cluster/replicas/migrations.h"

namespace quire {

/// Decides which requests move to another replica. Each replica examines its own requests on its engine's thread, and
/// checks its state every kLookEverySeconds. A replica that had waiting requests or new preemptions at two checks in a
/// row sends one request to a replica with plenty of free blocks (ChooseRelief). That request is the last waiting
/// request in the order of service, preferably a request without computed tokens; if no request waits, the last running
/// request. No request moves twice within kRestSeconds. The first prefill_replicas replicas only compute prompts: a
/// request leaves such a replica as soon as each of its sequences has a token.
class Rebalancer {
 public:
  static constexpr double kLookEverySeconds = 0.25, kRestSeconds = 10;

  Rebalancer(std::vector<Replica*> replicas, Migrations& migrations)
      : replicas_(std::move(replicas)), migrations_(migrations), watches_(replicas_.size()) {}

  void OnRound(int replica, const Engine& engine);

 private:
  struct Watch {  // one replica's state, used by its thread only
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
